//! What is done to borrowers, products and loans: one verb a file. Each loads, decides, records and publishes.

mod activate;
mod change_status;
mod charge_off;
mod close;
mod create_borrower;
mod create_loan;
mod create_product;
mod modify;
mod outcome;
mod serve;
mod update_loan;

pub(crate) use create_borrower::create_borrower;
pub(crate) use create_loan::{create_loan, terms};
pub(crate) use create_product::create_product;
pub(crate) use outcome::note_outcome;
pub(crate) use serve::serve;
pub(crate) use update_loan::update_loan;

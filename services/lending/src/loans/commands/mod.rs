//! The commands on borrowers, products and loans. Each loads, decides, records and publishes.

mod charge_off;
mod create;
mod modify;
mod refund_suspense;
mod service_loans;
mod status;
mod update_loan;

pub(crate) use create::{create_borrower, create_loan, create_product, loan_terms};
pub(crate) use service_loans::service_loans;
pub(crate) use update_loan::update_loan;

//! All SQL of borrowers, products and loans. Row-level security adds the tenant to every condition.

mod books;
mod borrower;
mod loan;
mod product;
mod progress;
mod schedule;

pub(crate) use books::{principal_balances, principal_changes, received};
pub(crate) use borrower::{Borrower, NewBorrower, find_borrower, has_borrower, insert_borrower};
pub(crate) use loan::{
    Filter, any_unserviced, insert_loan, list_loans, lock_loans, save_loan, set_accrued_to, set_serviced_to,
    take_unserviced,
};
pub use loan::{find_loan, lock_loan};
pub(crate) use product::{find_product, insert_product};
pub(crate) use progress::{Claim, Progress, State, begin, claim, feature, latest, settle};
pub use schedule::find_schedule;
pub(crate) use schedule::{late_fees, mark_late_fee, replace_schedule};

//! All SQL of borrowers, products and loans. Row-level security adds the tenant to every condition.

mod books;
mod borrower;
mod command_status;
mod loan;
mod product;
mod schedule;
mod status;

pub(crate) use books::{lowest_suspense, principal_balances, principal_changes, received, suspense_balances};
pub(crate) use borrower::{Borrower, NewBorrower, find_borrower, has_borrower, insert_borrower};
pub(crate) use command_status::{
    CommandStatus, RequestClaim, claim_request, is_creation_accepted, latest_command, mark_processing,
    set_command_state, tenant_feature,
};
pub(crate) use loan::{
    LoanFilter, has_unserviced, insert_loan, list_loans, lock_loans, lock_unserviced, save_loan, set_accrued_to,
    set_serviced_to, set_suspense_applied_to,
};
pub use loan::{find_loan, lock_loan};
pub(crate) use product::{find_product, insert_product};
pub use schedule::find_schedule;
pub(crate) use schedule::{late_fees, mark_late_fee, write_schedule};
pub(crate) use status::status_changes;

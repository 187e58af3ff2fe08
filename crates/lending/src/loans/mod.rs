//! Borrowers, products and loans: made, funded, changed, and served day by day.
//!
//! Reading order: a [`Loan`] is what is kept; [`request`] and [`events`] are what is asked for and told. `commands` do it, one
//! verb a file; [`accrue`] and [`review_late_fees`] book what the days bring; [`books`], [`outstanding`] and [`payoff`] say
//! where a loan stands; [`postings`] are the lines that all of it leaves in the ledger.
//!
//! Invariant: whoever changes a loan or posts to it holds [`store::lock_loan`] first.

mod accrual;
pub mod events;
mod late_fees;
mod loan;
mod position;
pub mod postings;
pub mod request;
mod settlement;
pub mod store;

pub use accrual::{accrue, correct_accruals};
pub use late_fees::review_late_fees;
pub use loan::Loan;
pub use position::{books, books_with, dues, outstanding, payoff};
pub use settlement::{reopen_if_owed, settle_if_paid};

use crate::Settings;
use onceward::prelude::*;
use std::sync::Arc;

/// Columns without which loans must not be served.
pub(crate) const REQUIRED: &[RequiredTable] = &[];

/// The contracts.
pub(crate) const SCHEMAS: &[&str] = &[];

pub(crate) fn routes(routes: Routes, _settings: &Arc<Settings>) -> Routes {
    routes
}

pub(crate) fn consumers(service: Service, _settings: &Arc<Settings>) -> Service {
    service
}

//! Borrowers, products and loans: created, funded, changed, and serviced daily.
//!
//! Reading order: a [`Loan`] is the stored record; [`request`] and [`events`] define the requests and messages.
//! `commands` execute them; [`accrue`] and [`review_late_fees`] book daily interest and fees; [`books`],
//! [`outstanding`] and [`payoff`] compute a loan's position; [`postings`] are the ledger lines of all these.
//!
//! Invariant: code that changes a loan or posts to it holds [`store::lock_loan`] first.

mod accrual;
mod commands;
mod consumers;
pub mod events;
mod late_fees;
mod loan;
pub(crate) mod metrics;
mod position;
pub mod postings;
pub mod request;
mod routes;
mod settlement;
pub mod store;

pub use accrual::accrue;
pub use late_fees::review_late_fees;
pub(crate) use late_fees::update_late_fees;
pub use loan::Loan;
pub(crate) use position::{BooksRequest, books_as_of, books_of_all, division_day, is_held, owes, statuses};
pub use position::{books, books_and_balances, dues, outstanding, payoff};
pub use settlement::{reopen_if_owed, settle_if_paid};

pub(crate) use consumers::consumers;
pub(crate) use routes::routes;

use events::{LoanAccrue, LoanCreate, LoanCreated, LoanUpdate, LoanUpdated};
use onceward::{RequiredTable, Service};

/// Columns that must exist before loans are serviced.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "lending.borrower_entities",
        columns: &["tenant_id", "borrower_entity_id", "kind", "display_name", "email", "external_ref"],
    },
    RequiredTable { table: "lending.product_policy", columns: &["tenant_id", "code", "version", "policy"] },
    RequiredTable {
        table: "lending.loan",
        columns: &[
            "tenant_id",
            "loan_id",
            "status",
            "status_since",
            "status_by",
            "principal_minor",
            "schedule_no",
            "schedule_start",
            "accrued_to",
            "serviced_to",
            "suspense_applied_to",
            "version",
        ],
    },
    RequiredTable {
        table: "lending.instalment",
        columns: &["tenant_id", "loan_id", "schedule_no", "number", "late_fees"],
    },
    RequiredTable {
        table: "lending.loan_status_change",
        columns: &["tenant_id", "loan_id", "from_status", "status", "effective_date", "changed_by", "changed_at"],
    },
    RequiredTable { table: "lending.command_status", columns: &["tenant_id", "correlation_id", "request_key"] },
];

/// The JSON Schemas of the messages and requests.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/borrower.new.v1.json"),
    include_str!("../../schemas/borrower.v1.json"),
    include_str!("../../schemas/product.new.v1.json"),
    include_str!("../../schemas/product.v1.json"),
    include_str!("../../schemas/loan.new.v1.json"),
    include_str!("../../schemas/loan.change.v1.json"),
    include_str!("../../schemas/loan.create.v1.json"),
    include_str!("../../schemas/loan.update.v1.json"),
    include_str!("../../schemas/loan.accrue.v1.json"),
    include_str!("../../schemas/loan.created.v1.json"),
    include_str!("../../schemas/loan.updated.v1.json"),
    include_str!("../../schemas/loan.accepted.v1.json"),
    include_str!("../../schemas/loan.status.v1.json"),
    include_str!("../../schemas/loan.v1.json"),
    include_str!("../../schemas/loan.list.v1.json"),
    include_str!("../../schemas/loan.schedule.v1.json"),
    include_str!("../../schemas/loan.statuses.v1.json"),
    include_str!("../../schemas/loan.payoff.v1.json"),
    include_str!("../../schemas/loan.ledger.v1.json"),
];

/// Declares the events that loans publish.
pub(crate) fn published(service: Service) -> Service {
    service
        .publishes::<LoanCreate>()
        .publishes::<LoanCreated>()
        .publishes::<LoanUpdate>()
        .publishes::<LoanUpdated>()
        .publishes::<LoanAccrue>()
}

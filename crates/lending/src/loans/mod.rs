//! Borrowers, products and loans: made, funded, changed, and served day by day.
//!
//! Reading order: a [`Loan`] is what is kept; [`request`] and [`events`] are what is asked for and told. `commands` do it, one
//! verb a file; [`accrue`] and [`review_late_fees`] book what the days bring; [`books`], [`outstanding`] and [`payoff`] say
//! where a loan stands; [`postings`] are the lines that all of it leaves in the ledger.
//!
//! Invariant: whoever changes a loan or posts to it holds [`store::lock_loan`] first.

mod accrual;
mod commands;
mod consumers;
pub mod events;
mod late_fees;
mod loan;
mod position;
pub mod postings;
pub mod request;
mod routes;
mod settlement;
pub mod store;

pub use accrual::accrue;
pub use late_fees::review_late_fees;
pub use loan::Loan;
pub(crate) use position::{Asked, books_of_all};
pub use position::{books, books_and_balances, dues, outstanding, payoff};
pub use settlement::{reopen_if_owed, settle_if_paid};

pub(crate) use routes::routes;

use crate::{Settings, topology::SCHEDULES};
use onceward::{Event, prelude::*};
use std::sync::Arc;

/// Columns without which loans must not be served.
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
            "principal_minor",
            "schedule_no",
            "schedule_start",
            "accrued_to",
            "serviced_to",
            "version",
        ],
    },
    RequiredTable { table: "lending.instalment", columns: &["tenant_id", "loan_id", "number", "late_fees"] },
    RequiredTable { table: "lending.command_status", columns: &["tenant_id", "correlation_id", "request_key"] },
];

/// The contracts.
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
    include_str!("../../schemas/loan.payoff.v1.json"),
    include_str!("../../schemas/loan.ledger.v1.json"),
];

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let accrual_topic = format!("{SCHEDULES}:tenant.{{tenant}}.loan.accrue");
    let accrual = Schedule::new("lending-accrual", &settings.accrual_cron, accrual_topic, events::LoanAccrue::TYPE);
    service
        .consumer(Consumer::transactional("create-loan", "loan.create.v1").on(consumers::OnLoanCreate))
        .consumer(Consumer::transactional("update-loan", "loan.update.v1").on(consumers::OnLoanUpdate))
        .consumer(Consumer::transactional("accrue-loans", "loan.accrue.v1").on(consumers::OnAccrualTick))
        .schedule(accrual.each_tenant())
}

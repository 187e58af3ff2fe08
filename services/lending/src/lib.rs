//! Lending: loans that cannot lose a cent.
//!
//! [`model`] contains the rules: schedules, interest, amounts due, the division of payments. They are pure functions
//! of their arguments; all reading and writing is done elsewhere. [`loans`] manages borrowers, products and loans: it
//! creates, funds and changes loans, and books interest and late fees daily. [`payments`] accepts payments, checks
//! them and posts them. [`escrow`] pays taxes and insurance out of deposits. [`etl`] builds facts for reports from all
//! of it. [`progress`] lets external workers report their progress on a command. [`cli`] is for operators.
//!
//! All messages about a loan are ordered by the loan's id. Every change of a loan locks its row first, then posts to
//! the ledger, and writes its audit entry in the same transaction.

pub mod cli;
pub mod error;
pub mod escrow;
pub mod etl;
pub mod loans;
pub mod model;
pub mod payments;
pub mod progress;
pub mod settings;
mod slo;
pub mod topology;

pub use error::LendingError;
pub use settings::{SECTION, Settings};

use onceward::prelude::*;
use std::sync::Arc;

/// Creates the service with everything it owns.
pub fn service(settings: Settings) -> Service {
    let settings = Arc::new(settings);
    let service = Service::new("lending")
        .migrations(onceward_audit::MIGRATIONS)
        .migrations(onceward_ledger::MIGRATIONS)
        .migrations(MIGRATIONS)
        .migrations(etl::REPORTING)
        .requires(onceward_audit::REQUIRED)
        .requires(onceward_ledger::REQUIRED)
        .requires(loans::REQUIRED)
        .requires(payments::REQUIRED)
        .requires(escrow::REQUIRED)
        .requires(etl::REQUIRED)
        .schemas(loans::SCHEMAS)
        .schemas(payments::SCHEMAS)
        .schemas(escrow::SCHEMAS)
        .schemas(etl::SCHEMAS)
        .schemas(progress::SCHEMAS)
        .topology(topology::topology());
    let service = loans::published(service);
    let service = payments::published(service);
    let service = escrow::published(service);
    let service = etl::published(service);
    let service = loans::consumers(service, &settings);
    let service = payments::consumers(service, &settings);
    let service = escrow::consumers(service);
    let service = etl::consumers(service, &settings);
    let service = progress::consumers(service);
    let service = service
        .metrics(loans::metrics::describe)
        .metrics(payments::metrics::describe)
        .metrics(etl::metrics::describe)
        .publish_counter(payments::metrics::PUBLISHED)
        .story_links(payments::LINKED_STORIES);
    let service = slo::slos().into_iter().fold(service, Service::slo);
    service.routes(move || {
        let routes = loans::routes().merge(payments::routes()).merge(escrow::routes()).merge(etl::routes());
        routes.problems(error::PROBLEMS).with_state(settings.clone())
    })
}

const MIGRATIONS: Migrations = Migrations {
    schema: "lending",
    steps: &[
        Migration { name: "0001_loans", sql: include_str!("../migrations/0001_loans.sql") },
        Migration { name: "0002_payments", sql: include_str!("../migrations/0002_payments.sql") },
        Migration { name: "0003_escrow", sql: include_str!("../migrations/0003_escrow.sql") },
        Migration { name: "0004_etl", sql: include_str!("../migrations/0004_etl.sql") },
        Migration { name: "0005_unapplied", sql: include_str!("../migrations/0005_unapplied.sql") },
    ],
};

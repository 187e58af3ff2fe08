//! Lending: loans that cannot lose a cent.
//!
//! [`model`] holds the rules: schedules, interest, what is due, how a payment is divided. They are
//! pure functions of what they are given; everything that reads or writes stands elsewhere.
//! [`loans`] keeps borrowers, products and loans: it makes loans, funds and changes them, and books
//! interest and late fees as the days go by. [`payments`] takes payments in, checks them and posts them.
//! [`escrow`] pays taxes and insurance out of what was set aside. [`etl`] makes facts for reports from all of it.
//! [`progress`] is how workers elsewhere tell how far they are with a command. [`cli`] is for operators.
//!
//! Everything about a loan goes by messages that are ordered by the loan's id. What changes a loan locks its row
//! first, then posts to the ledger, and writes its audit entry in the same transaction.

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

/// The service, with all it owns.
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
    let service = loans::consumers(service, &settings);
    let service = payments::consumers(service, &settings);
    let service = escrow::consumers(service);
    let service = etl::consumers(service, &settings);
    let service = progress::consumers(service);
    let service = service.figures(slo::describe).slo(slo::payment_latency());
    service.routes(move || {
        let routes = loans::routes(Routes::new().problems(error::PROBLEMS), &settings);
        let routes = payments::routes(routes);
        let routes = escrow::routes(routes);
        etl::routes(routes, &settings)
    })
}

const MIGRATIONS: Migrations = Migrations {
    schema: "lending",
    steps: &[
        Migration { name: "0001_loans", sql: include_str!("../migrations/0001_loans.sql") },
        Migration { name: "0002_payments", sql: include_str!("../migrations/0002_payments.sql") },
        Migration { name: "0003_escrow", sql: include_str!("../migrations/0003_escrow.sql") },
        Migration { name: "0004_etl", sql: include_str!("../migrations/0004_etl.sql") },
    ],
};

//! Adoption: migrates a legacy lending database for the new services while the old program continues to run.
//!
//! The legacy schema has the tables `borrowers`, `loans`, `payments` and `outbox`, float amounts and no tenants. No
//! table is rewritten. Columns, keys and triggers are added in steps that block writers only briefly. Rows are
//! processed in small batches whose progress is stored in the same transaction, so that a run that was interrupted
//! continues where it stopped. Triggers keep old and new columns in step while the old program writes.
//!
//! No amount is rounded. An amount without an exact value in minor units keeps its float, gets no `amount_minor`, and
//! is listed in `adoption.finding`, as is every row that refers to a missing row. The rule for amounts is defined only
//! in `migrations/0001_adoption.sql`: the shortest decimal that parses to the same float has at most two decimals, and
//! the float is small enough to distinguish hundredths (below 2^46).
//!
//! Reading order: `steps` lists the steps, `run` executes them, `import` copies borrowers and loans to lending,
//! [`verify`] compares old and new.

pub mod cli;
mod connection;
mod error;
mod import;
mod mapping;
mod plan;
mod run;
mod steps;
mod store;
mod verify;

pub use error::AdoptionError;
pub use import::{LendingImport, RateUnit};
pub use mapping::LegacyMapping;
pub use plan::{PlannedStep, StepState, plan};
pub use run::{AdoptionOptions, run};
pub use verify::{DataDifference, VerificationReport, verify};

use onceward::{Migration, Migrations};

/// The schema `adoption`.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "adoption",
    steps: &[Migration { name: "0001_adoption", sql: include_str!("../migrations/0001_adoption.sql") }],
};

//! Adoption: a legacy database becomes one that new services can use, while the old program goes on.
//!
//! The legacy shape: `borrowers`, `loans`, `payments` and `outbox` in one schema, amounts as floats, no tenants. Nothing is
//! rewritten. Columns, keys and triggers are added in steps that keep writers out for moments at most; rows are worked on in
//! small batches whose progress is kept in the same transaction, so that whatever ends the run, the next one goes on where it
//! was. What the old program writes meanwhile is kept in step by triggers.
//!
//! No amount is rounded. One that has no exact form in minor units keeps its float, gets no `amount_minor`, and is listed
//! in `adoption.finding`, as is every row that refers to nothing. The rule for amounts stands in
//! `migrations/0001_adoption.sql` and nowhere else: the shortest decimal that is read back as the same float has two places
//! at most, and the float is small enough to tell hundredths apart (below 2^46).
//!
//! Reading order: `steps` is what will be done, `run` does it, `bring` takes borrowers and loans over to lending,
//! [`verify`] compares old and new.

mod bring;
pub mod cli;
mod error;
mod legacy;
mod plan;
mod run;
mod shape;
mod steps;
mod store;
mod verify;

pub use bring::{Bring, RateUnit};
pub use error::AdoptionError;
pub use plan::{Planned, State, plan};
pub use run::{Options, run};
pub use shape::Shape;
pub use verify::{Difference, Verified, verify};

use onceward::{Migration, Migrations};

/// The schema `adoption`.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "adoption",
    steps: &[Migration { name: "0001_adoption", sql: include_str!("../migrations/0001_adoption.sql") }],
};

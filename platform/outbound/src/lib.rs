//! Calls to other systems, protected from both sides: a destination in trouble is left alone, and it cannot take every
//! worker with it.
//!
//! A [`Destination`] declares the limits of one other system as data. [`Outbound`] is the registry of a process:
//! [`Outbound::call`] composes, from the outside in, the retry budget, the breaker, the bulkhead and the timeout around
//! one call. A call that is rejected was not made, and [`Rejected`] says when to ask again.
//!
//! A breaker belongs to a destination and a credential, so that a revoked key of one tenant does not stop the others.
//! Processes share breakers through PostgreSQL (`store`): half of them must agree before all stop calling, and then one of
//! them probes. While the database is away, each process decides for itself.
//!
//! Reading order: `destination`, `call`, `breaker_guard`, `registry`, `destination_state`, `sharing`, `store`.

mod breaker_guard;
mod call;
mod destination;
mod destination_state;
mod error;
mod measure;
mod registry;
mod sharing;
mod store;

pub use call::OutboundCall;
pub use destination::Destination;
pub use error::{CallError, OutboundError, RejectReason, Rejected};
pub use measure::{OPEN_SECONDS, STATE, describe as describe_metrics};
pub use registry::Outbound;
pub use store::{BreakerRow, close, isolate, list};

use onceward_db::{Migration, Migrations, RequiredTable};

/// The schema `outbound`.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "outbound",
    steps: &[Migration { name: "0001_breakers", sql: include_str!("../migrations/0001_breakers.sql") }],
};

/// The columns this crate relies on, for the start-up check.
pub const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "outbound.breaker", columns: &["destination", "credential", "state", "changed_at"] },
    RequiredTable { table: "outbound.process", columns: &["destination", "process", "seen_at"] },
];

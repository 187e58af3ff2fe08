//! Routing as data: nothing here connects to a broker.
//!
//! - [`Topology`]: exchanges, queues and bindings, which can be merged, checked, routed through and printed.
//! - [`pattern`]: matches a binding's pattern against a routing key, in Rust and as a PostgreSQL regular expression.
//! - [`RetryPolicy`]: when a failed message is retried.
//! - [`Schedule`]: events published by a cron expression.

pub mod pattern;
mod retry;
mod schedule;
mod topic;
mod topology;

pub use retry::{Jitter, RetryPolicy};
pub use schedule::{MissedTicks, Schedule, ScheduleScope};
pub use topic::{InvalidTopic, Topic};
pub use topology::{
    Binding, DeadLetter, Exchange, ExchangeKind, MergeConflict, Queue, QueueKind, Topology, TopologyProblem,
    UnknownExchange,
};

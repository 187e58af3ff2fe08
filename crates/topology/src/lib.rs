//! Where messages go, as data: nothing here talks to a broker.
//!
//! - [`Topology`]: exchanges, queues and bindings, which can be merged, checked, routed through and printed.
//! - [`pattern`]: how a binding's pattern meets a routing key, in Rust and as a PostgreSQL expression.
//! - [`RetryPolicy`] and [`RetryBudget`]: when a failed message is tried again, and how often all of them may be.
//! - [`Schedule`]: what is published by the clock.

pub mod pattern;
mod retry;
mod schedule;
mod topic;
mod topology;

pub use retry::{BudgetState, Jitter, RetryBudget, RetryPolicy};
pub use schedule::{MissedTicks, Schedule, ScheduleScope};
pub use topic::{InvalidTopic, Topic};
pub use topology::{
    Binding, DeadLetter, Exchange, ExchangeKind, MergeConflict, Queue, QueueKind, Topology, TopologyProblem,
    UnknownExchange,
};

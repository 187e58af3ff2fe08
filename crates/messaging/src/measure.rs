//! The names of the figures that messaging keeps.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, histogram};
use std::time::Duration;

/// Messages waiting in a queue.
pub const QUEUE_DEPTH: &str = "loanserve_queue_depth";
/// Age of the oldest waiting message.
pub const CONSUMER_LAG_SECONDS: &str = "loanserve_consumer_lag_seconds";
/// Messages settled, by result.
pub const MESSAGES_PROCESSED: &str = "loanserve_messages_processed_total";
/// How long handlers take.
pub const CONSUMER_RUNTIME_MS: &str = "loanserve_consumer_runtime_ms";
/// Messages not yet handed to the bus.
pub const OUTBOX_UNPUBLISHED: &str = "outbox_unpublished_count";
/// From commit to the bus.
pub const OUTBOX_PUBLISH_LATENCY_MS: &str = "outbox_publish_latency_ms";
/// Attempts that failed and will be repeated.
pub const RETRIES: &str = "onceward_retries_total";
/// Messages put away for good.
pub const DEAD_LETTERS: &str = "onceward_dead_letters_total";
/// Dead letters nobody has dealt with.
pub const DEAD_LETTERS_OPEN: &str = "onceward_dead_letters_open";
/// Messages put aside: retries, delays, leases.
pub const DEFERRED: &str = "onceward_deferred_messages";
/// Database connections by state.
pub const POOL_CONNECTIONS: &str = "onceward_pool_connections";
/// Ticks published.
pub const SCHEDULE_TICKS: &str = "onceward_schedule_ticks_total";

/// Gives every figure its help text.
pub fn describe() {
    describe_gauge!(QUEUE_DEPTH, "Messages waiting in a queue (projected beyond 1000 a lane)");
    describe_gauge!(CONSUMER_LAG_SECONDS, "Age of the oldest waiting message of a queue");
    describe_counter!(MESSAGES_PROCESSED, "Messages settled, by queue and result");
    describe_histogram!(CONSUMER_RUNTIME_MS, "Handler run time in milliseconds, by queue");
    describe_gauge!(OUTBOX_UNPUBLISHED, "Committed messages not yet handed to the bus");
    describe_histogram!(OUTBOX_PUBLISH_LATENCY_MS, "Milliseconds from publish to the start of the handling turn");
    describe_counter!(RETRIES, "Failed attempts that will be repeated, by queue");
    describe_counter!(DEAD_LETTERS, "Messages that became dead letters, by queue and reason");
    describe_gauge!(DEAD_LETTERS_OPEN, "Dead letters nobody has dealt with, by queue (counted up to 1000)");
    describe_gauge!(DEFERRED, "Messages put aside for a time, by queue (counted up to 1000)");
    describe_gauge!(POOL_CONNECTIONS, "Database connections by state");
    describe_counter!(SCHEDULE_TICKS, "Schedule ticks published, by schedule");
}

pub(crate) fn processed(queue: &str, result: &'static str, count: u64) {
    counter!(MESSAGES_PROCESSED, "queue" => queue.to_owned(), "result" => result).increment(count);
}

pub(crate) fn retried(queue: &str) {
    counter!(RETRIES, "queue" => queue.to_owned()).increment(1);
}

pub(crate) fn died(queue: &str, reason: &'static str) {
    counter!(DEAD_LETTERS, "queue" => queue.to_owned(), "reason" => reason).increment(1);
}

pub(crate) fn ran(queue: &str, elapsed: Duration) {
    histogram!(CONSUMER_RUNTIME_MS, "queue" => queue.to_owned()).record(elapsed.as_secs_f64() * 1000.0);
}

pub(crate) fn waited(queue: &str, waited_ms: f64) {
    histogram!(OUTBOX_PUBLISH_LATENCY_MS, "queue" => queue.to_owned()).record(waited_ms);
}

pub(crate) fn ticked(schedule: &str) {
    counter!(SCHEDULE_TICKS, "schedule" => schedule.to_owned()).increment(1);
}

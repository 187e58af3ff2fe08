//! The names of the figures that messaging keeps.

use jiff::Timestamp;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use onceward_transport::Settlement;
use onceward_transport_postgres::routes::OUTBOX;
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
/// Messages that relays took out of the outbox.
pub const RELAY_FETCHED: &str = "outbox_relay_fetched_total";
/// Messages that the bus has accepted.
pub const RELAY_PUBLISHED: &str = "outbox_relay_published_total";
/// Messages that the bus refused and that will be offered again.
pub const RELAY_RETRIED: &str = "outbox_relay_retried_total";
/// Messages that the bus refused for good.
pub const RELAY_DEAD: &str = "outbox_relay_dead_total";
/// 1 while this process's relay reaches the bus.
pub const BUS_UP: &str = "onceward_bus_up";
/// Messages that came over the bus and were written down.
pub const LANDED: &str = "onceward_landed_total";
/// Messages that came over the bus and cannot be read.
pub const MALFORMED: &str = "onceward_malformed_total";
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
    describe_counter!(RELAY_FETCHED, "Messages that relays took out of the outbox");
    describe_counter!(RELAY_PUBLISHED, "Messages that the bus has accepted");
    describe_counter!(RELAY_RETRIED, "Messages that the bus refused and that will be offered again");
    describe_counter!(RELAY_DEAD, "Messages that the bus refused for good");
    describe_gauge!(BUS_UP, "1 while this process's relay reaches the bus, by bus");
    describe_counter!(LANDED, "Messages that came over the bus and were written down, by queue");
    describe_counter!(MALFORMED, "Messages that came over the bus and cannot be read, by queue");
    describe_counter!(RETRIES, "Failed attempts that will be repeated, by queue");
    describe_counter!(DEAD_LETTERS, "Messages that became dead letters, by queue and reason");
    describe_gauge!(DEAD_LETTERS_OPEN, "Dead letters nobody has dealt with, by queue (counted up to 1000)");
    describe_gauge!(DEFERRED, "Messages put aside for a time, by queue (counted up to 1000)");
    describe_gauge!(POOL_CONNECTIONS, "Database connections by state");
    describe_counter!(SCHEDULE_TICKS, "Schedule ticks published, by schedule");
}

pub(crate) fn fetched(count: usize) {
    counter!(RELAY_FETCHED).increment(count as u64);
}

/// What became of a batch that a relay carried; `first` is when its first message was published.
pub(crate) fn relayed(settlements: &[Settlement], first: Option<Timestamp>, now: Timestamp) {
    let count = |wanted: fn(&Settlement) -> bool| settlements.iter().filter(|one| wanted(one)).count() as u64;
    counter!(RELAY_PUBLISHED).increment(count(|one| matches!(one, Settlement::Done)));
    counter!(RELAY_RETRIED).increment(count(|one| matches!(one, Settlement::Retry { .. })));
    counter!(RELAY_DEAD).increment(count(|one| matches!(one, Settlement::Dead { .. })));
    if let Some(first) = first {
        waited(OUTBOX, (now.as_microsecond() - first.as_microsecond()).max(0) as f64 / 1000.0);
    }
}

pub(crate) fn bus_up(bus: &'static str, up: bool) {
    gauge!(BUS_UP, "bus" => bus).set(if up { 1.0 } else { 0.0 });
}

pub(crate) fn landed(queue: &str, received: usize, malformed: usize) {
    counter!(LANDED, "queue" => queue.to_owned()).increment(received as u64);
    if malformed > 0 {
        counter!(MALFORMED, "queue" => queue.to_owned()).increment(malformed as u64);
    }
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

/// `messages` were handled together; each took its share.
pub(crate) fn ran(queue: &str, elapsed: Duration, messages: usize) {
    let share_ms = elapsed.as_secs_f64() * 1000.0 / messages.max(1) as f64;
    histogram!(CONSUMER_RUNTIME_MS, "queue" => queue.to_owned()).record_many(share_ms, messages);
}

pub(crate) fn waited(queue: &str, waited_ms: f64) {
    histogram!(OUTBOX_PUBLISH_LATENCY_MS, "queue" => queue.to_owned()).record(waited_ms);
}

pub(crate) fn ticked(schedule: &str) {
    counter!(SCHEDULE_TICKS, "schedule" => schedule.to_owned()).increment(1);
}

//! The names of messaging's metrics.

use jiff::Timestamp;
use metrics::{Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use onceward_broker::Settlement;
use onceward_message_log::routes::OUTBOX;
use onceward_supervisor::TASK_RESTARTS;
use std::time::Duration;

/// Messages waiting in a queue.
pub const QUEUE_DEPTH: &str = "loanserve_queue_depth";
/// Age of the oldest waiting message.
pub const CONSUMER_LAG_SECONDS: &str = "loanserve_consumer_lag_seconds";
/// Messages settled, by result.
pub const MESSAGES_PROCESSED: &str = "loanserve_messages_processed_total";
/// How long handlers take.
pub const CONSUMER_RUNTIME_MS: &str = "loanserve_consumer_runtime_ms";
/// Messages not yet published to the bus.
pub const OUTBOX_UNPUBLISHED: &str = "outbox_unpublished_count";
/// Time from commit to the bus.
pub const OUTBOX_PUBLISH_LATENCY_MS: &str = "outbox_publish_latency_ms";
/// Messages that relays read from the outbox.
pub const RELAY_FETCHED: &str = "outbox_relay_fetched_total";
/// Messages that the bus accepted.
pub const RELAY_PUBLISHED: &str = "outbox_relay_published_total";
/// Refused messages that will be offered to the bus again.
pub const RELAY_RETRIED: &str = "outbox_relay_retried_total";
/// Messages that the bus refused permanently.
pub const RELAY_DEAD: &str = "outbox_relay_dead_total";
/// 1 while this process's relay reaches the bus.
pub const BUS_UP: &str = "onceward_bus_up";
/// Messages waiting on the external bus; they are part of [`QUEUE_DEPTH`].
pub const BUS_WAITING: &str = "onceward_bus_waiting_messages";
/// 1 while [`QUEUE_DEPTH`] and [`CONSUMER_LAG_SECONDS`] include the messages waiting on the external bus.
pub const BUS_BACKLOG_KNOWN: &str = "onceward_bus_backlog_known";
/// Messages that were received from the bus and stored.
pub const LANDED: &str = "onceward_landed_total";
/// Messages that were received from the bus and cannot be parsed.
pub const MALFORMED: &str = "onceward_malformed_total";
/// Failed attempts that will be retried.
pub const RETRIES: &str = "onceward_retries_total";
/// Messages that became dead letters.
pub const DEAD_LETTERS: &str = "onceward_dead_letters_total";
/// Dead letters that no operator has dealt with.
pub const DEAD_LETTERS_OPEN: &str = "onceward_dead_letters_open";
/// Deferred messages: retries, delays, leases.
pub const DEFERRED: &str = "onceward_deferred_messages";
/// 1 where a metric stopped counting, by queue and metric: the actual number is higher.
pub const COUNT_IS_MORE: &str = "onceward_count_is_more";
/// Messages that matched no queue although a consumer should handle them.
pub const UNROUTED: &str = "onceward_unrouted_messages";
/// Events to which no service subscribes.
pub const UNSUBSCRIBED: &str = "onceward_unsubscribed_messages";
/// Messages of types or versions that no running worker knows.
pub const UNKNOWN_MESSAGES: &str = "onceward_unknown_messages";
/// Age of the oldest of them.
pub const UNKNOWN_OLDEST_SECONDS: &str = "onceward_unknown_messages_oldest_seconds";
/// Whether a queue is paused for all tenants.
pub const QUEUE_PAUSED: &str = "onceward_queue_paused";
/// The number of tenants that are paused in a queue.
pub const QUEUE_PAUSED_TENANTS: &str = "onceward_queue_paused_tenants";
/// Messages per second that a queue's rate limit allows; 0 if it has none.
pub const QUEUE_RATE_LIMIT: &str = "onceward_queue_rate_limit";
/// Workers that a pool is to have, over all processes.
pub const WORKER_POOL_SIZE: &str = "onceward_worker_pool_size";
/// Workers of a pool that are handling messages, over all processes.
pub const WORKER_POOL_ACTIVE: &str = "onceward_worker_pool_active";
/// Messages that a pool could handle now.
pub const WORKER_POOL_WAITING: &str = "onceward_worker_pool_waiting";
/// Messages of a pool that wait for a later time.
pub const WORKER_POOL_DELAYED: &str = "onceward_worker_pool_delayed";
/// Messages that a pool has handled successfully.
pub const WORKER_POOL_COMPLETED: &str = "onceward_worker_pool_completed_total";
/// Attempts of a pool that failed.
pub const WORKER_POOL_FAILED: &str = "onceward_worker_pool_failed_total";
/// The mean time for which a worker of a pool is busy with a message.
pub const WORKER_POOL_MEAN_MS: &str = "onceward_worker_pool_mean_ms";
/// Database connections by state.
pub const POOL_CONNECTIONS: &str = "onceward_pool_connections";
/// Ticks published.
pub const SCHEDULE_TICKS: &str = "onceward_schedule_ticks_total";

/// Ticks that were missed and skipped.
pub const SCHEDULE_TICKS_SKIPPED: &str = "onceward_schedule_ticks_skipped_total";
/// Failed attempts to publish a schedule's ticks.
pub const SCHEDULE_FAILURES: &str = "onceward_schedule_failures_total";

/// Consumers of a queue that are running in this process.
pub const CONSUMERS_ONLINE: &str = "onceward_consumers_online";

/// A counter for messages published to one exchange, under a name that its service chooses.
///
/// On an external bus it counts confirmed messages, once the relay has recorded them. Where PostgreSQL is the bus, a
/// commit publishes, and the counter is incremented with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishCounter {
    /// The exchange.
    pub exchange: &'static str,
    /// The counter's name.
    pub metric: &'static str,
}

impl PublishCounter {
    /// Adds `messages` to the counter.
    pub(crate) fn add(&self, messages: u64) {
        counter!(self.metric).increment(messages);
    }
}

/// Registers the help text of every metric.
pub fn describe() {
    describe_gauge!(
        QUEUE_DEPTH,
        "Messages waiting in a queue, including those on the external bus (extrapolated beyond 1000 per lane)"
    );
    describe_gauge!(
        CONSUMER_LAG_SECONDS,
        "Age of the oldest unfinished message of a queue, including those on the external bus, in retry and behind others"
    );
    describe_counter!(MESSAGES_PROCESSED, "Messages settled, by queue and result");
    describe_histogram!(
        CONSUMER_RUNTIME_MS,
        "Milliseconds that the handler of a message ran, by queue; each message of a batch counts the time of the whole batch"
    );
    describe_gauge!(OUTBOX_UNPUBLISHED, "Committed messages not yet published to the bus");
    describe_histogram!(OUTBOX_PUBLISH_LATENCY_MS, "Milliseconds from publish to the start of the handling turn");
    describe_counter!(RELAY_FETCHED, "Messages that relays read from the outbox");
    describe_counter!(RELAY_PUBLISHED, "Messages that the bus has accepted");
    describe_counter!(RELAY_RETRIED, "Messages that the bus refused and that will be retried");
    describe_counter!(RELAY_DEAD, "Messages that the bus refused permanently");
    describe_gauge!(BUS_UP, "1 while this process's relay reaches the bus, by bus");
    describe_gauge!(BUS_WAITING, "Messages waiting on the external bus, by queue");
    describe_gauge!(
        BUS_BACKLOG_KNOWN,
        "1 while depth and lag include the messages waiting on the external bus, by bus"
    );
    describe_counter!(LANDED, "Messages that were received from the bus and stored, by queue");
    describe_counter!(MALFORMED, "Messages that were received from the bus and cannot be parsed, by queue");
    describe_counter!(RETRIES, "Failed attempts that will be retried, by queue");
    describe_counter!(DEAD_LETTERS, "Messages that became dead letters, by queue and reason");
    describe_gauge!(
        DEAD_LETTERS_OPEN,
        "Dead letters that no operator has dealt with, by queue (counted up to 1000; onceward_count_is_more reports whether more exist)"
    );
    describe_gauge!(
        DEFERRED,
        "Deferred messages and those that wait behind them, by queue (counted up to 1000; onceward_count_is_more reports \
         whether more exist)"
    );
    describe_gauge!(
        COUNT_IS_MORE,
        "1 where a metric stopped counting and the actual number is higher, by queue and figure"
    );
    describe_gauge!(
        UNROUTED,
        "Messages in the log that no queue was bound to when they were published (counted up to 1000 per type; \
         onceward_count_is_more reports whether more exist, and `onceward outbox status` lists them)"
    );
    describe_gauge!(
        UNSUBSCRIBED,
        "Messages in the log to which no service subscribes, so that deliberately no queue is bound to them \
         (counted up to 1000 per type)"
    );
    describe_gauge!(
        UNKNOWN_MESSAGES,
        "Messages of types or versions that no running worker knows, by queue (counted up to 1000; onceward_count_is_more \
         reports whether more exist)"
    );
    describe_gauge!(UNKNOWN_OLDEST_SECONDS, "Age of the oldest message of an unknown type, by queue");
    describe_gauge!(QUEUE_PAUSED, "1 while a queue is paused for all tenants, by queue");
    describe_gauge!(QUEUE_PAUSED_TENANTS, "Tenants that are paused, by queue");
    describe_gauge!(
        QUEUE_RATE_LIMIT,
        "Messages per second that a queue's rate limit allows; 0 without a limit, by queue"
    );
    describe_gauge!(WORKER_POOL_SIZE, "Workers that a worker pool is to have, over all processes, by pool");
    describe_gauge!(
        WORKER_POOL_ACTIVE,
        "Workers of a worker pool that are handling messages, over all processes, by pool"
    );
    describe_gauge!(
        WORKER_POOL_WAITING,
        "Messages that a worker pool could handle now, by pool (counted up to 1000 per lane)"
    );
    describe_gauge!(WORKER_POOL_DELAYED, "Messages of a worker pool that wait for a later time, by pool");
    describe_counter!(
        WORKER_POOL_COMPLETED,
        "Messages that a worker pool has handled successfully, over all processes, by pool"
    );
    describe_counter!(WORKER_POOL_FAILED, "Attempts of a worker pool that failed, over all processes, by pool");
    describe_gauge!(WORKER_POOL_MEAN_MS, "The mean time for which a worker is busy with a message, by pool");
    describe_gauge!(POOL_CONNECTIONS, "Database connections by state");
    describe_gauge!(CONSUMERS_ONLINE, "Consumers of a queue that this process runs");
    describe_counter!(TASK_RESTARTS, "Restarts of tasks that ended unexpectedly, by task");
    describe_counter!(SCHEDULE_TICKS, "Schedule ticks published, by schedule");
    describe_counter!(SCHEDULE_TICKS_SKIPPED, "Schedule ticks that were missed and skipped, by schedule");
    describe_counter!(SCHEDULE_FAILURES, "Failed attempts to publish a schedule's ticks, by schedule");
}

pub(crate) fn fetched(count: usize) {
    counter!(RELAY_FETCHED).increment(count as u64);
}

/// Records the results of a relayed batch; `published` contains each message's publishing time.
pub(crate) fn relayed(settlements: &[Settlement], published: impl Iterator<Item = Timestamp>, now: Timestamp) {
    let count = |wanted: fn(&Settlement) -> bool| settlements.iter().filter(|one| wanted(one)).count() as u64;
    counter!(RELAY_PUBLISHED).increment(count(|one| matches!(one, Settlement::Done)));
    counter!(RELAY_RETRIED).increment(count(|one| matches!(one, Settlement::Retry { .. })));
    counter!(RELAY_DEAD).increment(count(|one| matches!(one, Settlement::Dead { .. })));
    waited(OUTBOX, published, now);
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

/// Records how long a handler ran, for one message or a batch. Every message of a batch was in its handler until the
/// whole batch was done, so each is recorded with the full time: a fraction of it would match no real handling time.
pub(crate) fn ran(queue: &str, elapsed: Duration, messages: usize) {
    let elapsed_ms = elapsed.as_secs_f64() * 1000.0;
    histogram!(CONSUMER_RUNTIME_MS, "queue" => queue.to_owned()).record_many(elapsed_ms, messages);
}

/// A running consumer; it counts as online until this is dropped, however it ends.
pub(crate) struct Online(Gauge);

impl Online {
    pub(crate) fn new(queue: &str) -> Self {
        let gauge = gauge!(CONSUMERS_ONLINE, "queue" => queue.to_owned());
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Online {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Records how long each message of a batch has waited since it was published.
pub(crate) fn waited(queue: &str, published: impl Iterator<Item = Timestamp>, now: Timestamp) {
    let latency = histogram!(OUTBOX_PUBLISH_LATENCY_MS, "queue" => queue.to_owned());
    for published in published {
        latency.record((now.as_microsecond() - published.as_microsecond()).max(0) as f64 / 1000.0);
    }
}

pub(crate) fn ticked(schedule: &str) {
    counter!(SCHEDULE_TICKS, "schedule" => schedule.to_owned()).increment(1);
}

pub(crate) fn ticks_skipped(schedule: &str, count: u64) {
    counter!(SCHEDULE_TICKS_SKIPPED, "schedule" => schedule.to_owned()).increment(count);
}

pub(crate) fn schedule_failed(schedule: &str) {
    counter!(SCHEDULE_FAILURES, "schedule" => schedule.to_owned()).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{
        Counter, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder,
    };
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// Stores the values that histograms record.
    #[derive(Clone, Default)]
    struct RecordedValues(Arc<Mutex<Vec<f64>>>);

    impl HistogramFn for RecordedValues {
        fn record(&self, value: f64) {
            self.0.lock().push(value);
        }
    }

    impl Recorder for RecordedValues {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Arc::new(self.clone()))
        }
    }

    #[test]
    fn each_message_of_a_batch_records_the_runtime_of_the_whole_batch() {
        let recorded = RecordedValues::default();
        with_local_recorder(&recorded, || ran("q", Duration::from_millis(40), 4));
        assert_eq!(*recorded.0.lock(), [40.0; 4]);
    }

    #[test]
    fn each_message_of_a_batch_records_its_publish_latency() {
        let recorded = RecordedValues::default();
        let at = |ms: i64| Timestamp::from_millisecond(ms).expect("a time");
        with_local_recorder(&recorded, || {
            relayed(&[Settlement::Done, Settlement::Done], [at(10), at(40)].into_iter(), at(50));
            waited("q", [at(60), at(45)].into_iter(), at(50));
        });
        assert_eq!(*recorded.0.lock(), [40.0, 10.0, 0.0, 5.0]);
    }
}

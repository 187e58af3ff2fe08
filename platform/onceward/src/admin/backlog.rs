//! Counts the messages that an external bus holds for each queue, and how old they are.

use jiff::Timestamp;
use onceward_broker::Broker;
use onceward_db::Db;
use onceward_message_log::stats;
use onceward_topology::Topology;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The messages that the bus holds for one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueBacklog {
    /// The queue.
    pub queue: String,
    /// The number of messages waiting there; `None` if the bus does not know it.
    pub waiting: Option<u64>,
    /// None of them was published before this time; `None` if none waits, or if the number is unknown.
    pub oldest_at: Option<Timestamp>,
}

impl QueueBacklog {
    /// Returns the age of the oldest waiting message, never too small; 0 if none is waiting.
    pub fn lag_seconds(&self, now: Timestamp) -> f64 {
        self.oldest_at.map_or(0.0, |oldest| now.duration_since(oldest).as_secs_f64().max(0.0))
    }
}

/// Counts the messages of every queue of `topology`. Fails if the bus or the database does not respond within `timeout`.
/// `prefetch` is how many messages of a queue a reader may have in flight.
///
/// Redis and Kafka know when the oldest message was published. RabbitMQ does not: there it is calculated from when the
/// queue was last seen empty, and from how many messages have landed since (`onceward.record_backlogs`).
pub async fn queue_backlogs(
    broker: &dyn Broker,
    db: &Db,
    topology: &Topology,
    timeout: Duration,
    prefetch: usize,
) -> Result<Vec<QueueBacklog>, String> {
    let timed_out = || Err(format!("{} did not respond within {} ms", broker.name(), timeout.as_millis()));
    tokio::time::timeout(timeout, count(broker, db, topology, prefetch)).await.unwrap_or_else(|_| timed_out())
}

async fn count(
    broker: &dyn Broker,
    db: &Db,
    topology: &Topology,
    prefetch: usize,
) -> Result<Vec<QueueBacklog>, String> {
    let queues: Vec<String> = topology.queues.iter().map(|queue| queue.name.clone()).collect();
    let counted_at = Instant::now();
    let backlogs = broker.backlogs(&queues).await.map_err(|error| error.to_string())?;
    let backlog = |(queue, held): (String, onceward_broker::Backlog)| QueueBacklog {
        queue,
        waiting: held.waiting,
        oldest_at: held.oldest_at,
    };
    let mut counts: Vec<QueueBacklog> = queues.into_iter().zip(backlogs).map(backlog).collect();
    if !broker.capabilities().reports_age {
        let waiting: Vec<(String, u64)> =
            counts.iter().filter_map(|count| Some((count.queue.clone(), count.waiting?))).collect();
        let noted = stats::record_backlogs(db, &waiting, counted_at.elapsed(), prefetch).await;
        let oldest =
            noted.map_err(|error| format!("the age of the messages on the bus cannot be determined: {error}"))?;
        for count in &mut counts {
            count.oldest_at = oldest.get(&count.queue).copied();
        }
    }
    Ok(counts)
}

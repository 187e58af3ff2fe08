//! Counts messages on the external bus every few seconds and caches the result, so that no scrape waits for a broker.

use crate::{
    Config, Platform,
    admin::backlog::{QueueBacklog, queue_backlogs},
};
use jiff::Timestamp;
use onceward_broker::Broker;
use onceward_db::Db;
use onceward_message_log::stats::QueueStats;
use onceward_messaging::measure;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How long one count may take.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);
/// A result older than this many rounds (interval plus timeout) is stale.
const STALE_AFTER: u32 = 2;

/// Caches the counts of the messages waiting on the bus, as long as [`BacklogMonitor::run`] runs.
pub(super) struct BacklogMonitor {
    broker: Arc<dyn Broker>,
    db: Db,
    platform: Platform,
    /// Queues with a consumer. In other queues no message waits to be handled.
    consumed: HashSet<String>,
    every: Duration,
    prefetch: usize,
    last: Mutex<Option<(Instant, HashMap<String, QueueBacklog>)>>,
}

impl BacklogMonitor {
    pub(super) fn new(broker: Arc<dyn Broker>, db: Db, platform: &Platform, config: &Config) -> Self {
        Self {
            broker,
            db,
            platform: platform.clone(),
            consumed: platform.consumers().map(|consumer| consumer.queue().to_owned()).collect(),
            every: Duration::from_millis(config.bus.backlog_every_ms),
            prefetch: config.bus.prefetch,
            last: Mutex::default(),
        }
    }

    /// Counts until `stop`. When the bus cannot be reached, the last counts are kept and soon reported as unknown.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut is_reachable = true;
        while !stop.is_cancelled() {
            let counting =
                queue_backlogs(&*self.broker, &self.db, self.platform.topology(), COUNT_TIMEOUT, self.prefetch);
            let counts = tokio::select! { counts = counting => counts, () = stop.cancelled() => return };
            match counts {
                Ok(counts) => {
                    let counts = counts.into_iter().map(|count| (count.queue.clone(), count)).collect();
                    *self.last.lock() = Some((Instant::now(), counts));
                    is_reachable = true;
                }
                // Logged once, not every few seconds.
                Err(error) => {
                    if std::mem::replace(&mut is_reachable, false) {
                        tracing::warn!(%error, "counting the messages on the bus failed; depth and lag include only landed messages, or the last known counts");
                    }
                }
            }
            tokio::select! { () = tokio::time::sleep(self.every) => {}, () = stop.cancelled() => {} }
        }
    }

    /// Sets the metric that shows whether the others include the messages waiting on the bus.
    pub(super) fn report(&self) {
        let last = self.last.lock();
        let known = last.as_ref().is_some_and(|(at, counts)| {
            let counted = |queue: &String| counts.get(queue).is_some_and(|count| count.waiting.is_some());
            at.elapsed() < (self.every + COUNT_TIMEOUT) * STALE_AFTER && self.consumed.iter().all(counted)
        });
        metrics::gauge!(measure::BUS_BACKLOG_KNOWN, "bus" => self.broker.name()).set(f64::from(u8::from(known)));
    }

    /// Adds the messages that wait on the bus to what the database knows about a queue.
    pub(super) fn add_bus_backlog(&self, queue: &mut QueueStats) {
        let last = self.last.lock();
        if let Some(count) = last.as_ref().and_then(|(_, counts)| counts.get(&queue.queue)) {
            let waiting = count.waiting.unwrap_or(0);
            metrics::gauge!(measure::BUS_WAITING, "queue" => queue.queue.clone()).set(waiting as f64);
            queue.depth += i64::try_from(waiting).unwrap_or(i64::MAX);
            if self.consumed.contains(&queue.queue) {
                queue.lag_seconds = queue.lag_seconds.max(count.lag_seconds(Timestamp::now()));
            }
        }
    }
}

//! The platform's metrics that are sampled on each request for `/metrics`.

use super::backlog_monitor::BacklogMonitor;
use crate::Platform;
use onceward_db::Db;
use onceward_message_log::{
    controls::{self, ControlEntry},
    pools::{self, WorkerPoolStatus},
    routes::OUTBOX,
    stats,
    unrouted::{self, UnroutedMessages},
};
use onceward_messaging::measure;
use onceward_web::{MetricsHandle, install_recorder};
use std::sync::Arc;

/// Returns the metrics, which are sampled when they are requested.
pub(super) fn metrics_handle(
    db: &Db,
    platform: &Platform,
    backlog_monitor: Option<Arc<BacklogMonitor>>,
) -> MetricsHandle {
    let mut handle = MetricsHandle::new(install_recorder());
    platform.describe_metrics();
    for sampler in platform.samplers() {
        let db = db.clone();
        handle = handle.sampler(move || sampler(db.clone()));
    }
    let (db, platform) = (db.clone(), platform.clone());
    handle.sampler(move || {
        let (db, platform, backlog_monitor) = (db.clone(), platform.clone(), backlog_monitor.clone());
        async move {
            let pool = db.status();
            for (state, count) in
                [("open", pool.size), ("idle", pool.idle), ("waiting", pool.waiting), ("max", pool.max_size)]
            {
                metrics::gauge!(measure::POOL_CONNECTIONS, "state" => state).set(count as f64);
            }
            if let Some(monitor) = &backlog_monitor {
                monitor.report();
            }
            match stats::queue_stats(&db).await {
                Ok(queues) => {
                    match controls::list(&db).await {
                        Ok(entries) => queues.iter().for_each(|queue| report_controls(&queue.queue, &entries)),
                        Err(error) => tracing::warn!(%error, "reading pauses and rate limits failed"),
                    }
                    queues.into_iter().for_each(|queue| report_queue(queue, backlog_monitor.as_deref()));
                }
                Err(error) => tracing::warn!(%error, "reading the queue metrics failed"),
            }
            match pools::list(&db).await {
                Ok(pools) => pools.iter().for_each(report_pool),
                Err(error) => tracing::warn!(%error, "reading the worker pools failed"),
            }
            match unrouted::unrouted(&db).await {
                Ok(unrouted) => report_unrouted(&platform, &unrouted),
                Err(error) => tracing::warn!(%error, "counting unrouted messages failed"),
            }
            match stats::unknown_messages(&db).await {
                Ok(queues) => queues.iter().for_each(report_unknown),
                Err(error) => tracing::warn!(%error, "counting messages of unknown types failed"),
            }
        }
    })
}

/// Facts without a subscriber have their own metric, because they are intentionally not routed.
fn report_unrouted(platform: &Platform, unrouted: &[UnroutedMessages]) {
    for (metric, is_expected) in [(measure::UNROUTED, false), (measure::UNSUBSCRIBED, true)] {
        let (messages, is_more) =
            unrouted::total(unrouted.iter().filter(|one| platform.is_unsubscribed(&one.event_type) == is_expected));
        metrics::gauge!(metric).set(messages as f64);
        metrics::gauge!(measure::COUNT_IS_MORE, "figure" => metric).set(f64::from(is_more));
    }
}

/// Reports every queue, so that a metric returns to zero when a pause or limit ends.
fn report_controls(queue: &str, entries: &[ControlEntry]) {
    let of_queue = || entries.iter().filter(|entry| entry.queue == queue);
    let is_paused = of_queue().any(|entry| entry.ends_at.is_some() && entry.tenant.is_none());
    let paused_tenants = of_queue().filter(|entry| entry.ends_at.is_some() && entry.tenant.is_some()).count();
    let limit = of_queue().filter(|entry| entry.tenant.is_none()).find_map(|entry| entry.per_second);
    let name = queue.to_owned();
    metrics::gauge!(measure::QUEUE_PAUSED, "queue" => name.clone()).set(f64::from(is_paused));
    metrics::gauge!(measure::QUEUE_PAUSED_TENANTS, "queue" => name.clone()).set(paused_tenants as f64);
    metrics::gauge!(measure::QUEUE_RATE_LIMIT, "queue" => name).set(limit.unwrap_or(0.0));
}

fn report_pool(pool: &WorkerPoolStatus) {
    let name = pool.name.clone();
    for (metric, value) in [
        (measure::WORKER_POOL_SIZE, f64::from(pool.size)),
        (measure::WORKER_POOL_ACTIVE, pool.active as f64),
        (measure::WORKER_POOL_WAITING, pool.waiting as f64),
        (measure::WORKER_POOL_DELAYED, pool.delayed as f64),
        (measure::WORKER_POOL_MEAN_MS, pool.rates.mean_ms.unwrap_or(0.0)),
    ] {
        metrics::gauge!(metric, "pool" => name.clone()).set(value);
    }
    for (metric, total) in
        [(measure::WORKER_POOL_COMPLETED, pool.completed), (measure::WORKER_POOL_FAILED, pool.failed)]
    {
        metrics::counter!(metric, "pool" => name.clone()).absolute(total.max(0).unsigned_abs());
    }
}

fn report_unknown(unknown: &stats::UnknownMessages) {
    let name = unknown.queue.clone();
    metrics::gauge!(measure::UNKNOWN_MESSAGES, "queue" => name.clone()).set(unknown.messages as f64);
    metrics::gauge!(measure::UNKNOWN_OLDEST_SECONDS, "queue" => name.clone()).set(unknown.oldest_seconds);
    let is_more = f64::from(unknown.is_more);
    metrics::gauge!(measure::COUNT_IS_MORE, "queue" => name, "figure" => measure::UNKNOWN_MESSAGES).set(is_more);
}

fn report_queue(mut queue: stats::QueueStats, backlog_monitor: Option<&BacklogMonitor>) {
    if let Some(monitor) = backlog_monitor {
        monitor.add_bus_backlog(&mut queue);
    }
    let name = queue.queue.clone();
    if name == OUTBOX {
        // On the PostgreSQL bus the commit publishes, so nothing ever waits to be published.
        metrics::gauge!(measure::OUTBOX_UNPUBLISHED).set((queue.depth + queue.deferred) as f64);
    }
    metrics::gauge!(measure::QUEUE_DEPTH, "queue" => name.clone()).set(queue.depth as f64);
    metrics::gauge!(measure::CONSUMER_LAG_SECONDS, "queue" => name.clone()).set(queue.lag_seconds);
    metrics::gauge!(measure::DEFERRED, "queue" => name.clone()).set(queue.deferred as f64);
    metrics::gauge!(measure::DEAD_LETTERS_OPEN, "queue" => name.clone()).set(queue.dead as f64);
    for (metric, is_more) in
        [(measure::DEFERRED, queue.deferred_is_more), (measure::DEAD_LETTERS_OPEN, queue.dead_is_more)]
    {
        metrics::gauge!(measure::COUNT_IS_MORE, "queue" => name.clone(), "figure" => metric).set(f64::from(is_more));
    }
}

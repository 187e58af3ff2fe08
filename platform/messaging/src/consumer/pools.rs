//! Worker pools in this process: each has its share of the pool's size over all processes.
//!
//! Once a second a process reports what its workers did and learns the size of the pool and its own rank in it; one
//! process decides the size when that is due. A process that cannot reach the database keeps its share.

use super::{Slots, slots::SlotPool};
use onceward_db::{Db, DbError};
use onceward_message_log::pools::{self, PoolReport};
use onceward_outbound::Outbound;
use onceward_resilience::autoscale::{PoolSettings, share};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const INTERVAL: Duration = Duration::from_secs(1);

/// The worker pools of a process.
#[derive(Clone)]
pub struct WorkerPools(Arc<ProcessPools>);

struct ProcessPools {
    process: String,
    slots: Slots,
    outbound: Outbound,
    pools: Vec<ProcessPool>,
    by_queue: HashMap<String, usize>,
}

struct ProcessPool {
    declared: PoolSettings,
    slots: SlotPool,
    activity: Arc<PoolActivity>,
}

/// What the workers of a pool did since the last report.
#[derive(Default)]
pub(crate) struct PoolActivity(Mutex<PoolReport>);

impl PoolActivity {
    pub(crate) fn record(&self, completed: u64, failed: u64, busy: Duration) {
        let mut report = self.0.lock();
        report.completed += completed;
        report.failed += failed;
        report.busy_ms += busy.as_secs_f64() * 1_000.0;
    }

    /// Adds a report that could not be delivered.
    fn restore(&self, report: &PoolReport) {
        self.record(report.completed, report.failed, Duration::from_secs_f64(report.busy_ms / 1_000.0));
    }
}

/// The pool of one consumer.
#[derive(Clone)]
pub(crate) struct ConsumerPool {
    pub slots: SlotPool,
    /// The largest number of workers that the code declares, by which the readers of a process share its lanes.
    pub max: usize,
    pub activity: Arc<PoolActivity>,
}

impl WorkerPools {
    /// Adds these pools to the slots of the process. Until the first report each runs its minimum.
    pub fn new(pools: &[PoolSettings], slots: &Slots, outbound: &Outbound) -> Self {
        let process = format!("{}-{}", std::process::id(), Uuid::now_v7().simple());
        let mut by_queue = HashMap::new();
        for (index, pool) in pools.iter().enumerate() {
            by_queue.extend(pool.queues.iter().map(|queue| (queue.clone(), index)));
        }
        let pools = pools
            .iter()
            .map(|settings| ProcessPool {
                declared: settings.clone(),
                slots: slots.add_pool(settings.weight, settings.min),
                activity: Arc::default(),
            })
            .collect();
        Self(Arc::new(ProcessPools { process, slots: slots.clone(), outbound: outbound.clone(), pools, by_queue }))
    }

    /// Returns whether the process has none.
    pub fn is_empty(&self) -> bool {
        self.0.pools.is_empty()
    }

    pub(crate) fn of_queue(&self, queue: &str) -> Option<ConsumerPool> {
        let pool = &self.0.pools[*self.0.by_queue.get(queue)?];
        let (slots, activity) = (pool.slots, pool.activity.clone());
        Some(ConsumerPool { slots, max: pool.declared.max, activity })
    }

    /// Reports and resizes until `stop`; then leaves the pools.
    pub async fn run(self, db: Db, stop: CancellationToken) {
        let mut is_declared = false;
        while !stop.is_cancelled() {
            if let Err(error) = self.update(&db, &mut is_declared).await {
                tracing::debug!(%error, "updating worker pools failed; they keep their size");
            }
            tokio::select! { () = tokio::time::sleep(INTERVAL) => {}, () = stop.cancelled() => {} }
        }
        if let Err(error) = pools::leave(&db, &self.0.process).await {
            tracing::debug!(%error, "leaving the worker pools failed; the others notice it after a while");
        }
    }

    async fn update(&self, db: &Db, is_declared: &mut bool) -> Result<(), DbError> {
        if !*is_declared {
            for pool in &self.0.pools {
                pools::declare(db, &pool.declared).await?;
            }
            *is_declared = true;
        }
        for pool in &self.0.pools {
            self.update_pool(db, pool).await?;
        }
        Ok(())
    }

    async fn update_pool(&self, db: &Db, pool: &ProcessPool) -> Result<(), DbError> {
        let mut report = std::mem::take(&mut *pool.activity.0.lock());
        report.active = self.0.slots.in_use(pool.slots);
        report.blocked = pool.declared.destinations.iter().find_map(|destination| {
            let why = self.0.outbound.blocked_by(destination)?;
            Some(format!("{why} ({destination})"))
        });
        let name = &pool.declared.name;
        let membership = pools::report(db, name, &self.0.process, &report).await.inspect_err(|_| {
            pool.activity.restore(&report);
        })?;
        let settings = &membership.settings;
        let mut size = membership.size;
        if membership.is_check_due
            && let Some(decision) = pools::decide(db, settings, self.permits(pool, membership.members)).await?
        {
            if decision.is_change() {
                tracing::info!(pool = %name, from = decision.from, to = decision.to, reason = %decision.reason, "resized a worker pool");
            }
            size = decision.to;
        }
        self.0.slots.resize(pool.slots, settings.weight, share(size, membership.members, membership.rank));
        Ok(())
    }

    /// Returns how many calls the destinations of a pool allow at the same time; `None` if it has no destination.
    fn permits(&self, pool: &ProcessPool, processes: usize) -> Option<usize> {
        let limits = pool.declared.destinations.iter().filter_map(|destination| self.0.outbound.limit(destination));
        limits.reduce(|sum, limit| sum.saturating_add(limit)).map(|sum| sum.saturating_mul(processes.max(1)))
    }
}

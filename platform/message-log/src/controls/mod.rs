//! What operators set while queues are read: pauses and rate limits, of a queue or of one tenant in it.
//!
//! `acts` writes them, `ControlSnapshot` is what readers know of them, `watch` keeps it up to date, and `rate` takes
//! the permits of a rate limit. A reader that cannot reach the database keeps the pauses it knows until they end.

mod acts;
pub(crate) mod rate;
pub(crate) mod watch;

pub use acts::{limit, list, pause, resume, unlimit};

use jiff::Timestamp;
use onceward_db::{Db, DbError, Row};
use onceward_envelope::TenantId;
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::time::Instant;

// In `migrations/0022_controls.sql`:
const QUEUE_CONTROLS: &str = "
    SELECT queue_id, queue, tenant_id, remaining_ms, ends_at, per_second, burst, set_at, set_by, why
    FROM onceward.queue_controls()";

/// A pause or a rate limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlEntry {
    /// The queue.
    pub queue: String,
    /// The tenant in the queue; `None` means every tenant.
    pub tenant: Option<String>,
    /// When the pause ends; `None` for a rate limit.
    pub ends_at: Option<Timestamp>,
    /// Messages per second; `None` for a pause.
    pub per_second: Option<f64>,
    /// How many messages may be handled at once after an idle time; `None` for a pause.
    pub burst: Option<i32>,
    /// When it was set.
    pub set_at: Timestamp,
    /// Who set it.
    pub set_by: String,
    /// The reason.
    pub why: String,
}

impl ControlEntry {
    fn from_row(row: &Row) -> Self {
        Self {
            queue: row.get(1),
            tenant: Some(row.get(2)).filter(|tenant: &String| !tenant.is_empty()),
            ends_at: row.get(4),
            per_second: row.get(5),
            burst: row.get(6),
            set_at: row.get(7),
            set_by: row.get(8),
            why: row.get(9),
        }
    }
}

/// What a reader must know of one queue's pauses and rate limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueControl {
    /// Until when the whole queue is paused.
    pub paused_until: Option<Instant>,
    /// Until when single tenants are paused.
    pub paused_tenants: HashMap<TenantId, Instant>,
    /// Whether the whole queue has a rate limit.
    pub is_limited: bool,
    /// The tenants that have a rate limit in this queue.
    pub limited_tenants: HashSet<TenantId>,
}

impl QueueControl {
    /// Returns when the first of its pauses ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.paused_tenants.values().copied().chain(self.paused_until).min()
    }

    pub(crate) fn has_limits(&self) -> bool {
        self.is_limited || !self.limited_tenants.is_empty()
    }
}

/// The pauses and rate limits of all queues, by the queue's number, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControlSnapshot(HashMap<i32, QueueControl>);

impl ControlSnapshot {
    pub(crate) async fn load(db: &Db) -> Result<Self, DbError> {
        let connection = db.connection().await?;
        let rows = connection.query(QUEUE_CONTROLS, &[]).await?;
        let now = Instant::now();
        let mut queues: HashMap<i32, QueueControl> = HashMap::new();
        for row in &rows {
            let control = queues.entry(row.get(0)).or_default();
            let tenant = TenantId::new(row.get::<_, &str>(2)).ok();
            // The end is a time span of the database's clock, so that machines with different clocks agree.
            let remaining: Option<i64> = row.get(3);
            match (remaining.map(|ms| now + Duration::from_millis(ms.max(0).unsigned_abs())), tenant) {
                (Some(end), Some(tenant)) => drop(control.paused_tenants.insert(tenant, end)),
                (Some(end), None) => control.paused_until = Some(end),
                (None, Some(tenant)) => drop(control.limited_tenants.insert(tenant)),
                (None, None) => control.is_limited = true,
            }
        }
        Ok(Self(queues))
    }

    pub(crate) fn of(&self, queue_id: i32) -> QueueControl {
        self.0.get(&queue_id).cloned().unwrap_or_default()
    }
}

//! The commands and events of reporting.

use crate::topology::{WorkQueue, exchanges, tenant_key};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};

/// The command to open the windows that have ended: published by the schedule, and again for what one turn did not
/// reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlSchedule {
    /// The schedule's name.
    pub schedule: String,
    /// The tick's time. Windows that end by this time are opened.
    pub scheduled_for: Timestamp,
    /// The position among the messages of one tick.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

/// The queue of [`EtlSchedule`].
pub(crate) const SCHEDULE_QUEUE: WorkQueue =
    WorkQueue { name: "etl.schedule.v1", exchange: exchanges::SCHEDULES, key: "etl.schedule" };

impl Event for EtlSchedule {
    const TYPE: &'static str = "etl.schedule.v1";
    const EXCHANGE: &'static str = SCHEDULE_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, SCHEDULE_QUEUE.key)
    }
}

/// The command to build the facts of a window for the loans of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlJob {
    /// The start of the window.
    pub window_start: Timestamp,
    /// The shard's number, from 0.
    pub shard: i32,
    /// The window's generation.
    pub generation: i32,
}

impl EtlJob {
    pub(super) fn key(&self, tenant: &TenantId) -> String {
        format!("etl-job:{tenant}:{}:{}:{}", self.window_start, self.shard, self.generation)
    }
}

/// The queue of [`EtlJob`].
pub(crate) const JOB_QUEUE: WorkQueue = WorkQueue { name: "etl.job.v1", exchange: exchanges::COMMANDS, key: "etl.job" };

impl Event for EtlJob {
    const TYPE: &'static str = "etl.job.v1";
    const EXCHANGE: &'static str = JOB_QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, JOB_QUEUE.key)
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("etl_window".to_owned(), self.window_start.to_string()))
    }
}

/// All facts of a window are written. It is published again, with the next generation, after late additions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlCompleted {
    /// The start of the window.
    pub window_start: Timestamp,
    /// The end of the window, exclusive.
    pub window_end: Timestamp,
    /// The window's generation.
    pub generation: i32,
    /// The number of loans with a fact.
    pub loans: i64,
    /// The number of facts about payments.
    pub payments: i64,
    /// The number of facts about balances.
    pub balances: i64,
    /// When the last shard was completed.
    pub completed_at: Timestamp,
}

impl Event for EtlCompleted {
    const TYPE: &'static str = "etl.completed.event.v1";
    const EXCHANGE: &'static str = exchanges::EVENTS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, "etl.completed")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(format!("etl:{}", self.window_start))
    }

    fn idempotency_key(&self) -> Option<String> {
        Some(format!("etl-completed:{}:{}", self.window_start, self.generation))
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("etl_window".to_owned(), self.window_start.to_string()))
    }
}

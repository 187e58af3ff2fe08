//! What is asked for and told by messages.

use crate::topology::{COMMANDS, EVENTS, SCHEDULES};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};

/// Open the windows that are over: by the clock, and again for what one turn did not reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlSchedule {
    /// The schedule's name.
    pub schedule: String,
    /// The tick's time. Windows that end by then are opened.
    pub scheduled_for: Timestamp,
    /// Counts the messages of one tick.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
}

fn is_zero(part: &u32) -> bool {
    *part == 0
}

impl Event for EtlSchedule {
    const TYPE: &'static str = "etl.schedule.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{SCHEDULES}:tenant.{tenant}.etl.schedule")
    }
}

/// Make the facts of a window for the loans of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlJob {
    /// Which window.
    pub window_start: Timestamp,
    /// Which shard, from 0.
    pub shard: i32,
    /// For which generation of the window.
    pub generation: i32,
}

impl EtlJob {
    pub(super) fn key(&self, tenant: &TenantId) -> String {
        format!("etl-job:{tenant}:{}:{}:{}", self.window_start, self.shard, self.generation)
    }
}

impl Event for EtlJob {
    const TYPE: &'static str = "etl.job.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{COMMANDS}:tenant.{tenant}.etl.job")
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("etl_window".to_owned(), self.window_start.to_string()))
    }
}

/// All facts of a window are there. Comes again, with the next generation, when something late was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtlCompleted {
    /// Which window.
    pub window_start: Timestamp,
    /// Its end, which is not in it.
    pub window_end: Timestamp,
    /// Which generation.
    pub generation: i32,
    /// How many loans have a fact.
    pub loans: i64,
    /// How many facts about payments there are.
    pub payments: i64,
    /// How many facts about balances there are.
    pub balances: i64,
    /// When the last shard was done.
    pub completed_at: Timestamp,
}

impl Event for EtlCompleted {
    const TYPE: &'static str = "etl.completed.event.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.etl.completed")
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

//! Removes old per-minute counts and old ended sessions, in batches. Totals are kept.

use super::store;
use crate::{
    Settings,
    topology::{REMOVE_COUNTERS_KEY, SCHEDULES, tenant_key},
};
use jiff::Timestamp;
use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The maximum number of rows per table that one message removes.
const BATCH_MAX: i64 = 5_000;
/// The maximum number of messages per tick; the next tick continues.
const PARTS_MAX: u32 = 10_000;

/// A request to remove old counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoveOldCounters {
    pub(crate) schedule: String,
    pub(crate) scheduled_for: Timestamp,
    /// Numbers the messages of one tick.
    #[serde(default)]
    pub(crate) part: u32,
}

impl Event for RemoveOldCounters {
    const TYPE: &'static str = "counters.forget.v1";
    const EXCHANGE: &'static str = SCHEDULES;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, REMOVE_COUNTERS_KEY)
    }
}

/// Removes one batch and requests the next one.
pub(crate) struct RemoveOldCountersHandler {
    keep_days: i32,
}

impl RemoveOldCountersHandler {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self { keep_days: i32::try_from(settings.live_keep_days).unwrap_or(i32::MAX) }
    }
}

impl Handler for RemoveOldCountersHandler {
    type Event = RemoveOldCounters;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, RemoveOldCounters>) -> Result<(), Failure> {
        let tick = &received.event;
        if self.keep_days > 0
            && store::delete_old_counters(tx, self.keep_days, BATCH_MAX).await?
            && tick.part < PARTS_MAX
        {
            outbox::publish(tx, &RemoveOldCounters { part: tick.part + 1, ..tick.clone() }).await?;
        }
        Ok(())
    }
}

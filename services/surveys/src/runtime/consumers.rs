//! The consumer of `surveys.expire.v1`: inactive sessions release their places and end, and old counters of the live
//! view are removed.

use super::commands::expire;
use crate::{
    Settings,
    dash::{RemoveOldCounters, RemoveOldCountersHandler},
    topology::{EXPIRE_KEY, EXPIRE_QUEUE, REMOVE_COUNTERS_KEY, SCHEDULES, schedule_topic, tenant_key},
};
use jiff::Timestamp;
use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The maximum number of messages per tick; the next tick continues.
const PARTS_MAX: u32 = 10_000;

/// A request to expire inactive sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpireSessions {
    /// The schedule's name.
    pub schedule: String,
    /// The time of the tick.
    pub scheduled_for: Timestamp,
    /// Numbers the messages of one tick.
    #[serde(default)]
    pub part: u32,
}

impl Event for ExpireSessions {
    const TYPE: &'static str = "sessions.expire.v1";
    const EXCHANGE: &'static str = SCHEDULES;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, EXPIRE_KEY)
    }
}

/// Expires one batch of sessions and requests the next one.
struct ExpireSessionsHandler {
    settings: Arc<Settings>,
}

impl Handler for ExpireSessionsHandler {
    type Event = ExpireSessions;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, ExpireSessions>) -> Result<(), Failure> {
        let tick = &received.event;
        if expire(tx, &self.settings).await? && tick.part < PARTS_MAX {
            outbox::publish(tx, &ExpireSessions { part: tick.part + 1, ..tick.clone() }).await?;
        }
        Ok(())
    }
}

pub(super) fn declare(service: Service, settings: &Arc<Settings>) -> Service {
    let expire =
        Schedule::new("surveys-expire", &settings.expire_cron, schedule_topic(EXPIRE_KEY), ExpireSessions::TYPE);
    let remove = Schedule::new(
        "surveys-live-forget",
        &settings.live_forget_cron,
        schedule_topic(REMOVE_COUNTERS_KEY),
        RemoveOldCounters::TYPE,
    );
    // One message per transaction, because buckets are locked once per transaction.
    let consumer = Consumer::transactional("expire-sessions", EXPIRE_QUEUE)
        .prefetch(1)
        .on(ExpireSessionsHandler { settings: settings.clone() })
        .on(RemoveOldCountersHandler::new(settings));
    service
        .publishes::<ExpireSessions>()
        .consumer(consumer)
        .schedule(expire.each_tenant())
        .schedule(remove.each_tenant())
}

//! The clock's tick: silent sessions give their places back, and end.

use super::commands::expire;
use crate::Settings;
use jiff::Timestamp;
use onceward::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where ticks are published, with `{tenant}` for the tenant.
pub const EXPIRE_TOPIC: &str = "surveys.schedules:tenant.{tenant}.sessions.expire";
/// One tick is cut into so many messages at most; the next tick goes on.
const PARTS_AT_MOST: u32 = 10_000;

/// Look for silent sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpireSessions {
    /// The schedule's name.
    pub schedule: String,
    /// The tick's time.
    pub scheduled_for: Timestamp,
    /// Counts the messages of one tick.
    #[serde(default)]
    pub part: u32,
}

impl Event for ExpireSessions {
    const TYPE: &'static str = "sessions.expire.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        EXPIRE_TOPIC.replace("{tenant}", tenant.as_str())
    }
}

struct OnTick {
    settings: Arc<Settings>,
}

impl Handler for OnTick {
    type Event = ExpireSessions;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, ExpireSessions>) -> Result<(), Failure> {
        let tick = &received.event;
        if expire(tx, &self.settings).await? && tick.part < PARTS_AT_MOST {
            outbox::publish(tx, &ExpireSessions { part: tick.part + 1, ..tick.clone() }).await?;
        }
        Ok(())
    }
}

pub(crate) fn consumers(service: Service, settings: &Arc<Settings>) -> Service {
    let tick = Schedule::new("surveys-expire", &settings.expire_cron, EXPIRE_TOPIC, ExpireSessions::TYPE).each_tenant();
    // Each in a transaction of its own: buckets are locked once in each.
    let consumer = Consumer::transactional("expire-sessions", "surveys.expire.v1").prefetch(1);
    service.consumer(consumer.on(OnTick { settings: settings.clone() })).schedule(tick)
}

//! Measures how far counting lags behind: while somebody views a survey, a probe message takes the same path as its
//! events.
//!
//! As long as a probe is not counted, the events after it are not counted either, so its age is the lag. It grows while
//! the consumer, the relay or the bus is stopped, even if nothing happens in the survey.

use super::store;
use crate::topology::{PROBE_KEY, SCHEDULES, tenant_key};
use jiff::Timestamp;
use onceward::{PublishError, prelude::*};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A message that measures the lag of counting.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LagProbe {
    pub(super) survey_id: Uuid,
    /// By the database's clock.
    pub(super) sent_at: Timestamp,
}

impl Event for LagProbe {
    const TYPE: &'static str = "counters.probe.v1";
    const EXCHANGE: &'static str = SCHEDULES;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, PROBE_KEY)
    }
}

/// Publishes a probe with the commit of `tx`, unless one is in flight or was sent less than five seconds ago.
pub(super) async fn send(tx: &mut Tx, survey_id: Uuid) -> Result<(), PublishError> {
    let sent = store::record_probe(tx, survey_id).await.map_err(onceward::BusError::from)?;
    if let Some(sent_at) = sent {
        outbox::publish(tx, &LagProbe { survey_id, sent_at }).await?;
    }
    Ok(())
}

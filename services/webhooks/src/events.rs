//! The messages that this service publishes to others and to itself.

use crate::topology::{EVENTS_EXCHANGE, SWEEP_ROUTING_KEY, TICKS_EXCHANGE};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An endpoint was disabled: it receives nothing until it is enabled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointDisabled {
    /// The disabled endpoint.
    pub endpoint_id: Uuid,
    /// The reason, as a sentence for people.
    pub reason: String,
    /// The first failure since its last success, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
}

impl Event for EndpointDisabled {
    const TYPE: &'static str = "webhook.endpoint_disabled.v1";
    const EXCHANGE: &'static str = EVENTS_EXCHANGE;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.webhook.endpoint_disabled")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.endpoint_id.to_string())
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("webhook_endpoint".to_owned(), self.endpoint_id.to_string()))
    }
}

/// A tick of the maintenance schedule: old rows are to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SweepTick {
    pub schedule: String,
    pub scheduled_for: Timestamp,
    /// The number of this batch within its tick.
    #[serde(default)]
    pub part: u32,
}

impl Event for SweepTick {
    const TYPE: &'static str = "webhooks.sweep.v1";
    const EXCHANGE: &'static str = TICKS_EXCHANGE;

    fn routing_key(&self, _: &TenantId) -> String {
        SWEEP_ROUTING_KEY.to_owned()
    }
}

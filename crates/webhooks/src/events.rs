//! What this service tells others and itself.

use crate::topology::{EVENTS, TICKS};
use jiff::Timestamp;
use onceward::{Event, TenantId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An endpoint gets nothing any more until somebody enables it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDisabled {
    /// Which.
    pub endpoint_id: Uuid,
    /// Why, for people.
    pub reason: String,
    /// The first failure since its last success, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
}

impl Event for EndpointDisabled {
    const TYPE: &'static str = "webhook.endpoint_disabled.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{EVENTS}:tenant.{tenant}.webhook.endpoint_disabled")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.endpoint_id.to_string())
    }

    fn aggregate(&self) -> Option<(String, String)> {
        Some(("webhook_endpoint".to_owned(), self.endpoint_id.to_string()))
    }
}

/// Clear away what is old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sweep {
    pub schedule: String,
    pub scheduled_for: Timestamp,
    /// Counts the messages of one tick.
    #[serde(default)]
    pub part: u32,
}

impl Event for Sweep {
    const TYPE: &'static str = "webhooks.sweep.v1";

    fn topic(&self, _: &TenantId) -> String {
        format!("{TICKS}:sweep")
    }
}

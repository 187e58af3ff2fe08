//! The body of a delivery, in the form that Standard Webhooks recommends: `type`, `timestamp` and `data`, plus the
//! event's origin.
//!
//! ```json
//! {"type": "payment.posted.v1", "timestamp": "2026-11-16T08:00:00Z", "data": {…}, "eventId": "…", "tenantId": "…", "correlationId": "…"}
//! ```
//!
//! `type` is the name and version of the contract that `data` follows; `timestamp` is when the event happened.
//! `eventId` is also the message's `webhook-id`.

use jiff::Timestamp;
use onceward::{CorrelationId, Envelope, TenantId, envelope::Payload};
use serde::Serialize;
use uuid::Uuid;

/// The body. Its fields are serialized in this order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookBody<'e> {
    pub r#type: &'e str,
    pub timestamp: Timestamp,
    pub data: &'e Payload,
    pub event_id: Uuid,
    pub tenant_id: &'e TenantId,
    pub correlation_id: &'e CorrelationId,
}

impl<'e> WebhookBody<'e> {
    pub(crate) fn new(envelope: &'e Envelope) -> Self {
        Self {
            r#type: envelope.event_type.as_str(),
            timestamp: envelope.occurred_at,
            data: &envelope.payload,
            event_id: envelope.event_id,
            tenant_id: &envelope.tenant_id,
            correlation_id: &envelope.correlation_id,
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every field serializes")
    }
}

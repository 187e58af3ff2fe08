//! Creates one delivery per event and interested endpoint, in the transaction that settles the message, with the bytes
//! that will be sent.

use crate::store::{self, NewWebhookEvent};
use jiff::Timestamp;
use onceward::{AnyHandler, CorrelationId, Envelope, Failure, TenantId, Tx, envelope::Payload};
use serde::Serialize;
use uuid::Uuid;

/// Handles events of every type: an event is passed on without being interpreted.
pub(crate) struct FanOut;

impl AnyHandler for FanOut {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        if !store::has_endpoints(tx).await? {
            return Ok(());
        }
        let events: Vec<NewWebhookEvent> = batch
            .iter()
            .map(|envelope| NewWebhookEvent {
                event_id: envelope.event_id,
                event_type: envelope.event_type.to_string(),
                body: WebhookBody::new(envelope).to_json(),
                trace: envelope.trace.clone(),
            })
            .collect();
        if store::fan_out(tx, &events).await? > 0 {
            store::wake_senders(tx).await?;
        }
        Ok(())
    }
}

/// The body of a delivery, in the form that Standard Webhooks recommends: `type`, `timestamp` and `data`, plus the
/// event's origin.
///
/// ```json
/// {"type": "payment.posted.v1", "timestamp": "2026-11-16T08:00:00Z", "data": {…}, "eventId": "…", "tenantId": "…", "correlationId": "…"}
/// ```
///
/// `type` is the name and version of the contract that `data` follows; `timestamp` is when the event happened.
/// `eventId` is also the message's `webhook-id`.
///
/// The fields are serialized in this order.
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

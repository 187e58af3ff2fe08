//! Sends messages on an owner's request: a test, a delivery again, or all events of a time range again.

use super::{audit_entry, find_endpoint};
use crate::{
    error::WebhookError,
    event_types::TEST_EVENT_TYPE,
    fanout::WebhookBody,
    store::{self, Endpoint, NewWebhookEvent, ReplayOutcome},
};
use jiff::Timestamp;
use onceward::{Tx, audit, envelope::Payload};
use serde_json::json;
use uuid::Uuid;

/// Events per replay. The response says where the next request must start.
const MAX_REPLAYED_EVENTS: i64 = 10_000;

/// Sends an endpoint a test message by the same path as every other message. Returns the delivery's id. Fails if the
/// endpoint is disabled or paused.
pub(crate) async fn send_test(tx: &mut Tx, endpoint_id: Uuid) -> Result<Uuid, WebhookError> {
    if find_enabled(tx, endpoint_id).await?.paused {
        return Err(WebhookError::EndpointRefuses("The endpoint is paused. Resume it first."));
    }
    let event_id = Uuid::now_v7();
    let data = Payload::from(json!({ "endpoint_id": endpoint_id, "message": "This is a test. Nothing has happened." }));
    let body = WebhookBody {
        r#type: TEST_EVENT_TYPE,
        timestamp: Timestamp::now(),
        data: &data,
        event_id,
        tenant_id: tx.tenant()?,
        correlation_id: &tx.scope().correlation_id,
    };
    let event = NewWebhookEvent {
        event_id,
        event_type: TEST_EVENT_TYPE.to_owned(),
        body: body.to_json(),
        trace: tx.scope().trace.clone(),
    };
    let delivery_id = store::insert_event_for(tx, endpoint_id, &event).await?;
    store::wake_senders(tx).await?;
    audit::record(tx, audit_entry("webhook_tested", endpoint_id).payload(json!({ "deliveryId": delivery_id })))?;
    Ok(delivery_id)
}

/// Sends a delivery again, with the same id and the same body. Fails if its endpoint is disabled.
pub(crate) async fn resend(tx: &mut Tx, delivery_id: Uuid) -> Result<(), WebhookError> {
    let (_, endpoint_id) = store::find_delivery(tx, delivery_id).await?.ok_or(WebhookError::NotFound("delivery"))?;
    find_enabled(tx, endpoint_id).await?;
    store::resend_delivery(tx, delivery_id).await?;
    store::wake_senders(tx).await?;
    audit::record(tx, audit_entry("webhook_resent", endpoint_id).payload(json!({ "deliveryId": delivery_id })))?;
    Ok(())
}

/// Selects the events that were fanned out from `from` until before `to`.
pub(crate) struct ReplayRange {
    pub from: Timestamp,
    pub to: Timestamp,
    /// Limits the replay to these types; the endpoint's own filters apply as well.
    pub event_types: Option<Vec<String>>,
}

/// Sends the events of a time range again, with the same ids and the same bodies. Fails if the endpoint is disabled.
pub(crate) async fn replay(tx: &mut Tx, endpoint_id: Uuid, range: ReplayRange) -> Result<ReplayOutcome, WebhookError> {
    let ReplayRange { from, to, event_types } = range;
    if from >= to {
        return Err(WebhookError::Invalid { path: "/to", message: "must be later than from".to_owned() });
    }
    find_enabled(tx, endpoint_id).await?;
    let types = event_types.as_deref();
    let outcome = store::replay_deliveries(tx, endpoint_id, (from, to), types, MAX_REPLAYED_EVENTS).await?;
    store::wake_senders(tx).await?;
    let payload = json!({ "from": from, "to": to, "eventTypes": event_types, "deliveries": outcome.deliveries });
    audit::record(tx, audit_entry("webhook_replayed", endpoint_id).payload(payload))?;
    Ok(outcome)
}

/// Finds an endpoint. Fails if it is disabled, because a disabled endpoint receives nothing.
async fn find_enabled(tx: &Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    let endpoint = find_endpoint(tx, id).await?;
    match endpoint.disabled_at {
        Some(_) => Err(WebhookError::EndpointRefuses("The endpoint is disabled. Enable it first.")),
        None => Ok(endpoint),
    }
}

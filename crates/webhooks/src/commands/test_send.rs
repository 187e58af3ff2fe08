//! Sends an endpoint a message that says nothing, by the way that all messages go.

use super::{entry, find_enabled};
use crate::{
    body::Body,
    error::WebhookError,
    store::{self, NewEvent},
};
use jiff::Timestamp;
use onceward::{Tx, audit, envelope::Payload};
use serde_json::json;
use uuid::Uuid;

const TYPE: &str = "webhook.test.v1";

/// Gives the delivery's id.
pub(crate) async fn test_send(tx: &mut Tx, endpoint_id: Uuid) -> Result<Uuid, WebhookError> {
    if find_enabled(tx, endpoint_id).await?.paused {
        return Err(WebhookError::Refuses("The endpoint is paused: resume it first."));
    }
    let event_id = Uuid::now_v7();
    let data = Payload::from(json!({ "endpointId": endpoint_id, "message": "This is a test. Nothing has happened." }));
    let body = Body {
        r#type: TYPE,
        timestamp: Timestamp::now(),
        data: &data,
        event_id,
        tenant_id: tx.tenant()?,
        correlation_id: &tx.scope().correlation_id,
    };
    let event = NewEvent { event_id, event_type: TYPE.to_owned(), body: body.to_text() };
    let delivery_id = store::add_delivery(tx, endpoint_id, &event).await?;
    store::wake(tx).await?;
    audit::record(tx, entry("webhook_tested", endpoint_id).payload(json!({ "deliveryId": delivery_id })))?;
    Ok(delivery_id)
}

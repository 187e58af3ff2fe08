//! Gives an endpoint up, and says so.

use super::entry;
use crate::{error::WebhookError, events::EndpointDisabled, store};
use jiff::Timestamp;
use onceward::{Tx, audit, outbox};
use serde_json::json;
use uuid::Uuid;

/// `false`: it is disabled already.
pub(crate) async fn disable(
    tx: &mut Tx,
    endpoint_id: Uuid,
    reason: String,
    failing_since: Timestamp,
) -> Result<bool, WebhookError> {
    if !store::disable_endpoint(tx, endpoint_id, &reason).await? {
        return Ok(false);
    }
    let told = json!({ "reason": reason, "failingSince": failing_since });
    audit::record(tx, entry("webhook_endpoint_disabled", endpoint_id).payload(told))?;
    outbox::publish(tx, &EndpointDisabled { endpoint_id, reason, failing_since: Some(failing_since) }).await?;
    Ok(true)
}

//! Makes a delivery again, with the same id and the same body.

use super::{entry, find_enabled};
use crate::{error::WebhookError, store};
use onceward::{Tx, audit};
use serde_json::json;
use uuid::Uuid;

pub(crate) async fn resend(tx: &mut Tx, delivery_id: Uuid) -> Result<(), WebhookError> {
    let (_, endpoint_id) = store::find_delivery(tx, delivery_id).await?.ok_or(WebhookError::Missing("delivery"))?;
    find_enabled(tx, endpoint_id).await?;
    store::resend(tx, delivery_id).await?;
    store::wake(tx).await?;
    audit::record(tx, entry("webhook_resent", endpoint_id).payload(json!({ "deliveryId": delivery_id })))?;
    Ok(())
}

//! Lets an endpoint be told again. What waits for it is sent; what happened meanwhile can be replayed.

use super::{entry, lock};
use crate::{
    error::WebhookError,
    store::{self, Endpoint},
};
use onceward::{Tx, audit};
use serde_json::json;
use uuid::Uuid;

pub(crate) async fn enable(tx: &mut Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    let before = lock(tx, id).await?;
    store::enable_endpoint(tx, id).await?;
    store::wake(tx).await?;
    let was = json!({ "disabledAt": before.disabled_at, "reason": before.disabled_reason });
    audit::record(tx, entry("webhook_endpoint_enabled", id).old(was))?;
    store::find_endpoint(tx, id).await?.ok_or(WebhookError::Missing("endpoint"))
}

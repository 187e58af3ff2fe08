//! Gives an endpoint a new secret. The one before stays good for a while, and messages are signed with both.

use super::{entry, lock};
use crate::{
    Secret,
    error::WebhookError,
    store,
    vault::{Owner, Vault},
};
use onceward::{Tx, audit};
use serde_json::json;
use uuid::Uuid;

pub(crate) async fn rotate(tx: &mut Tx, vault: &Vault, id: Uuid, overlap_s: i64) -> Result<Secret, WebhookError> {
    lock(tx, id).await?;
    let secret = Secret::generate();
    let sealed = vault.seal(Owner { tenant: tx.tenant()?, endpoint_id: id }, &secret)?;
    store::add_secret(tx, id, &sealed, overlap_s).await?;
    audit::record(tx, entry("webhook_secret_rotated", id).payload(json!({ "overlapS": overlap_s })))?;
    Ok(secret)
}

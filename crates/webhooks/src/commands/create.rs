//! Adds an endpoint, with a secret that is told once.

use super::{audited, check_address, entry};
use crate::{
    Secret, Settings,
    error::WebhookError,
    store::{self, Change, Endpoint},
    vault::{Owner, Vault},
};
use onceward::{Tx, audit};
use uuid::Uuid;

pub(crate) async fn create(
    tx: &mut Tx,
    settings: &Settings,
    vault: &Vault,
    new: Change,
) -> Result<(Endpoint, Secret), WebhookError> {
    check_address(&new.url, settings.allow_http)?;
    let count = store::count_endpoints(tx).await?;
    if count >= i64::from(settings.max_endpoints) {
        return Err(WebhookError::Limit(count));
    }
    let (id, secret) = (Uuid::now_v7(), Secret::generate());
    store::insert_endpoint(tx, id, &new).await?;
    let sealed = vault.seal(Owner { tenant: tx.tenant()?, endpoint_id: id }, &secret)?;
    store::add_secret(tx, id, &sealed, 0).await?;
    audit::record(tx, entry("webhook_endpoint_created", id).new_value(audited(&new)))?;
    let endpoint = store::find_endpoint(tx, id).await?.ok_or(WebhookError::Missing("endpoint"))?;
    Ok((endpoint, secret))
}

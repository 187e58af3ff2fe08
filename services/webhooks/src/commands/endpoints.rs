//! Creates, changes and removes endpoints, rotates their secrets, and enables or disables them.

use super::{audit_entry, find_endpoint};
use crate::{
    Settings, WebhookSecret,
    client::check_url,
    error::WebhookError,
    events::EndpointDisabled,
    store::{self, Endpoint, EndpointSettings},
    vault::{SecretOwner, Vault},
};
use jiff::Timestamp;
use onceward::{Tx, audit, outbox};
use reqwest::Url;
use serde_json::{Value, json};
use uuid::Uuid;

/// Creates an endpoint, with a secret that is shown once.
pub(crate) async fn create(
    tx: &mut Tx,
    settings: &Settings,
    vault: &Vault,
    new: EndpointSettings,
) -> Result<(Endpoint, WebhookSecret), WebhookError> {
    check_endpoint_url(&new.url, settings.allow_http)?;
    let count = store::count_endpoints(tx).await?;
    if count >= i64::from(settings.max_endpoints) {
        return Err(WebhookError::EndpointLimit(count));
    }
    let id = Uuid::now_v7();
    store::insert_endpoint(tx, id, &new).await?;
    let secret = add_secret(tx, vault, id, 0).await?;
    audit::record(tx, audit_entry("webhook_endpoint_created", id).new_value(audit_view(&new)))?;
    Ok((find_endpoint(tx, id).await?, secret))
}

/// Changes to an endpoint. Omitted fields stay as they are.
#[derive(Default)]
pub(crate) struct EndpointPatch {
    pub url: Option<String>,
    pub description: Option<String>,
    pub event_types: Option<Vec<String>>,
    pub paused: Option<bool>,
    /// `Some(None)` removes the limit.
    pub max_per_second: Option<Option<i32>>,
}

/// Changes the settings that an owner controls. Resuming an endpoint sends its backlog.
pub(crate) async fn change(
    tx: &mut Tx,
    settings: &Settings,
    id: Uuid,
    patch: EndpointPatch,
) -> Result<Endpoint, WebhookError> {
    let Endpoint { url, description, event_types, paused, max_per_second, .. } = lock_endpoint(tx, id).await?;
    let before = EndpointSettings { url, description, event_types, paused, max_per_second };
    let after = EndpointSettings {
        url: patch.url.unwrap_or_else(|| before.url.clone()),
        description: patch.description.unwrap_or_else(|| before.description.clone()),
        event_types: patch.event_types.unwrap_or_else(|| before.event_types.clone()),
        paused: patch.paused.unwrap_or(before.paused),
        max_per_second: patch.max_per_second.unwrap_or(before.max_per_second),
    };
    check_endpoint_url(&after.url, settings.allow_http)?;
    store::update_endpoint(tx, id, &after).await?;
    if after.url != before.url {
        store::end_waits(tx, id).await?;
    }
    store::wake_senders(tx).await?;
    let entry = audit_entry("webhook_endpoint_changed", id);
    audit::record(tx, entry.old(audit_view(&before)).new_value(audit_view(&after)))?;
    find_endpoint(tx, id).await
}

/// Removes an endpoint. The sweep deletes its deliveries in batches.
pub(crate) async fn remove(tx: &mut Tx, id: Uuid) -> Result<(), WebhookError> {
    lock_endpoint(tx, id).await?;
    store::delete_endpoint(tx, id).await?;
    audit::record(tx, audit_entry("webhook_endpoint_deleted", id))?;
    Ok(())
}

/// Creates a new secret. The previous one stays valid for `overlap_s`, and messages are signed with both.
pub(crate) async fn rotate_secret(
    tx: &mut Tx,
    vault: &Vault,
    id: Uuid,
    overlap_s: i64,
) -> Result<WebhookSecret, WebhookError> {
    lock_endpoint(tx, id).await?;
    let secret = add_secret(tx, vault, id, overlap_s).await?;
    audit::record(tx, audit_entry("webhook_secret_rotated", id).payload(json!({ "overlapS": overlap_s })))?;
    Ok(secret)
}

/// Enables an endpoint again. Its pending deliveries are sent; events from the meantime can be replayed.
pub(crate) async fn enable(tx: &mut Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    let before = lock_endpoint(tx, id).await?;
    store::enable_endpoint(tx, id).await?;
    store::wake_senders(tx).await?;
    let old = json!({ "disabledAt": before.disabled_at, "reason": before.disabled_reason });
    audit::record(tx, audit_entry("webhook_endpoint_enabled", id).old(old))?;
    find_endpoint(tx, id).await
}

/// Disables a failing endpoint and publishes [`EndpointDisabled`]. Returns `false` if it is disabled already.
pub(crate) async fn disable(
    tx: &mut Tx,
    endpoint_id: Uuid,
    reason: String,
    failing_since: Timestamp,
) -> Result<bool, WebhookError> {
    if !store::disable_endpoint(tx, endpoint_id, &reason).await? {
        return Ok(false);
    }
    let payload = json!({ "reason": reason, "failingSince": failing_since });
    audit::record(tx, audit_entry("webhook_endpoint_disabled", endpoint_id).payload(payload))?;
    outbox::publish(tx, &EndpointDisabled { endpoint_id, reason, failing_since: Some(failing_since) }).await?;
    Ok(true)
}

async fn add_secret(tx: &Tx, vault: &Vault, endpoint_id: Uuid, overlap_s: i64) -> Result<WebhookSecret, WebhookError> {
    let secret = WebhookSecret::generate();
    let sealed = vault.seal(SecretOwner { tenant: tx.tenant()?, endpoint_id }, &secret)?;
    store::insert_secret(tx, endpoint_id, &sealed, overlap_s).await?;
    Ok(secret)
}

async fn lock_endpoint(tx: &Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    store::lock_endpoint(tx, id).await?.ok_or(WebhookError::NotFound("endpoint"))
}

fn check_endpoint_url(url: &str, allow_http: bool) -> Result<(), WebhookError> {
    check_url(url, allow_http).map(drop).map_err(|message| WebhookError::Invalid { path: "/url", message })
}

/// Returns the settings as the audit trail records them.
fn audit_view(settings: &EndpointSettings) -> Value {
    let origin = settings.url.parse::<Url>().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    json!({
        "origin": origin, "description": settings.description, "eventTypes": settings.event_types,
        "paused": settings.paused, "maxPerSecond": settings.max_per_second,
    })
}

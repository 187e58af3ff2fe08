//! What can be done with endpoints and deliveries: one verb a file. Each is audited, without secrets and without the path of an
//! address, which may hold one.

mod change;
mod create;
mod disable;
mod enable;
mod remove;
mod replay;
mod resend;
mod rotate;
mod test_send;

pub(crate) use change::{Patch, change};
pub(crate) use create::create;
pub(crate) use disable::disable;
pub(crate) use enable::enable;
pub(crate) use remove::remove;
pub(crate) use replay::{Range, replay};
pub(crate) use resend::resend;
pub(crate) use rotate::rotate;
pub(crate) use test_send::test_send;

use crate::{
    client::check_url,
    error::WebhookError,
    store::{self, Change, Endpoint},
};
use onceward::Tx;
use onceward_audit::Entry;
use reqwest::Url;
use serde_json::{Value, json};
use uuid::Uuid;

const ENDPOINT: &str = "webhook_endpoint";

fn entry(event_type: &str, endpoint_id: Uuid) -> Entry {
    Entry::new(event_type).object(ENDPOINT, endpoint_id)
}

async fn lock(tx: &Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    store::lock_endpoint(tx, id).await?.ok_or(WebhookError::Missing("endpoint"))
}

/// Only one that is not disabled can be sent something. It is not locked: who records an attempt locks the delivery first.
async fn find_enabled(tx: &Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    let endpoint = store::find_endpoint(tx, id).await?.ok_or(WebhookError::Missing("endpoint"))?;
    match endpoint.disabled_at {
        Some(_) => Err(WebhookError::Refuses("The endpoint is disabled: enable it first.")),
        None => Ok(endpoint),
    }
}

fn check_address(url: &str, allow_http: bool) -> Result<(), WebhookError> {
    check_url(url, allow_http).map(drop).map_err(|message| WebhookError::Invalid { path: "/url", message })
}

/// What the audit trail keeps of it.
fn audited(change: &Change) -> Value {
    let origin = change.url.parse::<Url>().map(|url| url.origin().ascii_serialization()).unwrap_or_default();
    json!({
        "origin": origin, "description": change.description, "eventTypes": change.event_types, "paused": change.paused,
        "maxPerSecond": change.max_per_second,
    })
}

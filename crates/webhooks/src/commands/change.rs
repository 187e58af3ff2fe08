//! Changes what its owner says about an endpoint. One that is resumed goes on with its backlog.

use super::{audited, check_address, entry, lock};
use crate::{
    Settings,
    error::WebhookError,
    store::{self, Change, Endpoint},
};
use onceward::{Tx, audit};
use uuid::Uuid;

/// What is left out stays as it is.
#[derive(Default)]
pub(crate) struct Patch {
    pub url: Option<String>,
    pub description: Option<String>,
    pub event_types: Option<Vec<String>>,
    pub paused: Option<bool>,
    /// `Some(None)` takes the limit away.
    pub max_per_second: Option<Option<i32>>,
}

pub(crate) async fn change(tx: &mut Tx, settings: &Settings, id: Uuid, patch: Patch) -> Result<Endpoint, WebhookError> {
    let Endpoint { url, description, event_types, paused, max_per_second, .. } = lock(tx, id).await?;
    let before = Change { url, description, event_types, paused, max_per_second };
    let after = Change {
        url: patch.url.unwrap_or_else(|| before.url.clone()),
        description: patch.description.unwrap_or_else(|| before.description.clone()),
        event_types: patch.event_types.unwrap_or_else(|| before.event_types.clone()),
        paused: patch.paused.unwrap_or(before.paused),
        max_per_second: patch.max_per_second.unwrap_or(before.max_per_second),
    };
    check_address(&after.url, settings.allow_http)?;
    store::change_endpoint(tx, id, &after).await?;
    store::wake(tx).await?;
    audit::record(tx, entry("webhook_endpoint_changed", id).old(audited(&before)).new_value(audited(&after)))?;
    store::find_endpoint(tx, id).await?.ok_or(WebhookError::Missing("endpoint"))
}

//! Makes the deliveries of a time range again, with the same ids and the same bodies.

use super::{entry, find_enabled};
use crate::{
    error::WebhookError,
    store::{self, Replayed},
};
use jiff::Timestamp;
use onceward::{Tx, audit};
use serde_json::json;
use uuid::Uuid;

/// Events of one request. The answer says where the rest begins.
const EVENTS_AT_MOST: i64 = 10_000;

/// By when events were fanned out: from `from`, before `to`.
pub(crate) struct Range {
    pub from: Timestamp,
    pub to: Timestamp,
    /// Of these types only; the endpoint's own filters count as well.
    pub event_types: Option<Vec<String>>,
}

pub(crate) async fn replay(tx: &mut Tx, endpoint_id: Uuid, range: Range) -> Result<Replayed, WebhookError> {
    let Range { from, to, event_types } = range;
    if from >= to {
        return Err(WebhookError::Invalid { path: "/to", message: "must be later than from".to_owned() });
    }
    find_enabled(tx, endpoint_id).await?;
    let replayed = store::replay(tx, endpoint_id, (from, to), event_types.as_deref(), EVENTS_AT_MOST).await?;
    store::wake(tx).await?;
    let told = json!({ "from": from, "to": to, "eventTypes": event_types, "deliveries": replayed.deliveries });
    audit::record(tx, entry("webhook_replayed", endpoint_id).payload(told))?;
    Ok(replayed)
}

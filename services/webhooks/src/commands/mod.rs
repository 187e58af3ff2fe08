//! Commands on endpoints and on deliveries. Each is audited, without secrets and without the path of a URL, which may
//! contain one.

mod deliveries;
mod endpoints;

pub(crate) use deliveries::{ReplayRange, replay, resend, send_test};
pub(crate) use endpoints::{EndpointPatch, change, create, disable, enable, remove, rotate_secret};

use crate::{
    error::WebhookError,
    store::{self, Endpoint},
};
use onceward::Tx;
use onceward_audit::Entry;
use uuid::Uuid;

/// Creates an audit entry about an endpoint.
fn audit_entry(event_type: &str, endpoint_id: Uuid) -> Entry {
    Entry::new(event_type).object("webhook_endpoint", endpoint_id)
}

/// Finds an endpoint. Does not lock it: recording an attempt locks the delivery first.
async fn find_endpoint(tx: &Tx, id: Uuid) -> Result<Endpoint, WebhookError> {
    store::find_endpoint(tx, id).await?.ok_or(WebhookError::NotFound("endpoint"))
}

//! Takes an endpoint away. Its deliveries go with it, some at a time.

use super::{entry, lock};
use crate::{error::WebhookError, store};
use onceward::{Tx, audit};
use uuid::Uuid;

pub(crate) async fn remove(tx: &mut Tx, id: Uuid) -> Result<(), WebhookError> {
    lock(tx, id).await?;
    store::delete_endpoint(tx, id).await?;
    audit::record(tx, entry("webhook_endpoint_deleted", id))?;
    Ok(())
}

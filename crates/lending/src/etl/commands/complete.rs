//! The last shard completes its window.

use crate::{
    LendingError,
    etl::{metrics, store},
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

pub(super) async fn complete_if_last(tx: &mut Tx, window_start: Timestamp) -> Result<(), LendingError> {
    let Some((completed, opened_at)) = store::complete_window(tx, window_start).await? else {
        return Ok(());
    };
    let entry = Entry::new("etl_window_completed").object("etl_window", window_start).payload(json!(completed));
    audit::record(tx, entry)?;
    outbox::publish(tx, &completed).await?;
    metrics::completed(opened_at, completed.completed_at);
    Ok(())
}

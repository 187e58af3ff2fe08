//! Requests the analysis of a document.

use super::DocumentsError;
use crate::{
    events::{CommandState, DocumentProcess, StatusUpdate},
    store,
};
use onceward::{Tx, audit, outbox};
use onceward_audit::Entry;
use uuid::Uuid;

/// Returns the number and state of the latest analysis, or `None` if the document does not exist. Starts a new analysis
/// if there is none yet or if `again` is set. Locks the document, so that concurrent requests start only one.
pub(crate) async fn analyze(
    tx: &mut Tx,
    document_id: Uuid,
    again: bool,
) -> Result<Option<(i32, String)>, DocumentsError> {
    if !store::lock_document(tx, document_id).await? {
        return Ok(None);
    }
    let latest = store::latest_analysis(tx, document_id).await?;
    let analysis = match latest {
        Some(latest) if !again => return Ok(Some((latest.number, latest.state))),
        latest => latest.map_or(1, |latest| latest.number + 1),
    };
    store::start_analysis(tx, document_id, analysis).await?;
    outbox::publish(tx, &DocumentProcess { document_id, analysis, from_page: 1 }).await?;
    let status =
        StatusUpdate::new(document_id, CommandState::Processing, format!("0 %: analysis {analysis} is queued"));
    outbox::publish(tx, &status).await?;
    let entry = Entry::new("document_analysis_requested").object("document", document_id);
    audit::record(tx, entry.payload(serde_json::json!({ "analysis": analysis })))?;
    Ok(Some((analysis, "queued".to_owned())))
}

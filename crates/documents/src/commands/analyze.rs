//! Asks for a document to be read.

use super::Machinery;
use crate::{
    events::{DocumentProcess, Progress, StatusUpdate},
    store,
};
use onceward::{Tx, audit, outbox};
use onceward_audit::Entry;
use uuid::Uuid;

/// Number and state of the reading that stands; `None` if there is no such document. One that was asked for before stands,
/// unless the caller wants it `again`.
pub(crate) async fn analyze(tx: &mut Tx, document_id: Uuid, again: bool) -> Result<Option<(i32, String)>, Machinery> {
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
    let status = StatusUpdate::new(document_id, Progress::Processing, format!("0 %: analysis {analysis} is queued"));
    outbox::publish(tx, &status).await?;
    let entry = Entry::new("document_analysis_requested").object("document", document_id);
    audit::record(tx, entry.payload(serde_json::json!({ "analysis": analysis })))?;
    Ok(Some((analysis, "queued".to_owned())))
}

//! Stores an uploaded file unchanged.

use super::DocumentsError;
use crate::{
    MediaType,
    store::{self, NewDocument},
};
use onceward::{Tx, audit};
use onceward_audit::Entry;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The result of an upload.
pub(crate) enum UploadOutcome {
    Created(Value),
    /// The id already has the same content.
    Unchanged(Value),
    /// The id already has different content. Nothing was written.
    Conflict,
}

/// Stores `content` under `document_id`, unless the id already exists.
pub(crate) async fn upload(
    tx: &mut Tx,
    document_id: Uuid,
    file_name: Option<&str>,
    media_type: MediaType,
    content: &[u8],
) -> Result<UploadOutcome, DocumentsError> {
    let sha256 = hex::encode(Sha256::digest(content));
    let new = NewDocument { document_id, file_name, media_type, sha256: &sha256, content };
    let inserted = store::insert_document(tx, &new).await?;
    let document = store::find_document(tx, document_id).await?.unwrap_or_default();
    if !inserted {
        let same = document["sha256"] == sha256.as_str();
        return Ok(if same { UploadOutcome::Unchanged(document) } else { UploadOutcome::Conflict });
    }
    let stored = json!({"mediaType": media_type.as_str(), "sizeBytes": content.len(), "sha256": sha256});
    audit::record(tx, Entry::new("document_uploaded").object("document", document_id).new_value(stored))?;
    tx.after_commit(move || {
        metrics::counter!("documents_uploaded_total", "media_type" => media_type.as_str()).increment(1);
    });
    Ok(UploadOutcome::Created(document))
}

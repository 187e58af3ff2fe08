//! The rows of artifacts.

use super::Manifest;
use onceward::{DbError, Tx};
use serde_json::Value;
use uuid::Uuid;

const INSERT: &str = "INSERT INTO crm.artifact
    (tenant_id, artifact_id, email_id, event_id, correlation_id, loan_id, key_id, message_id, message_sha256,
     message_bytes, manifest_sha256, objects)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
const FIND: &str = "SELECT artifact_id, key_id, message_id, message_sha256, message_bytes, manifest_sha256, objects
    FROM crm.artifact WHERE email_id = $1";

/// An artifact as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactRow {
    pub artifact_id: Uuid,
    pub key_id: Uuid,
    pub message_id: String,
    pub message_sha256: String,
    pub message_bytes: i32,
    pub manifest_sha256: String,
    pub objects: Value,
}

/// Inserts the artifact of a mail. The data key with this id encrypted its objects.
pub(crate) async fn insert_artifact(
    tx: &Tx,
    manifest: &Manifest,
    key_id: Uuid,
    manifest_sha256: &str,
) -> Result<(), DbError> {
    let message_bytes = i32::try_from(manifest.message_bytes).unwrap_or(i32::MAX);
    tx.execute(
        INSERT,
        &[
            &tx.tenant()?.as_str(),
            &manifest.artifact_id,
            &manifest.email_id,
            &manifest.event_id,
            &manifest.correlation_id,
            &manifest.loan_id,
            &key_id,
            &manifest.message_id,
            &manifest.message_sha256,
            &message_bytes,
            &manifest_sha256,
            &manifest.object_hashes(manifest_sha256),
        ],
    )
    .await?;
    Ok(())
}

/// Returns the artifact of a mail, or `None` if it was not rendered yet.
pub(crate) async fn find_artifact(tx: &Tx, email_id: Uuid) -> Result<Option<ArtifactRow>, DbError> {
    let row = tx.query_opt(FIND, &[&email_id]).await?;
    Ok(row.map(|row| ArtifactRow {
        artifact_id: row.get(0),
        key_id: row.get(1),
        message_id: row.get(2),
        message_sha256: row.get(3),
        message_bytes: row.get(4),
        manifest_sha256: row.get(5),
        objects: row.get(6),
    }))
}

//! Compares an artifact with its objects and with the audit chain.

use super::{ObjectName, find_artifact, store::ArtifactRow};
use crate::{
    CrmError,
    emails::{RecipientState, store as emails},
    keys::DataKey,
    state::CrmState,
};
use onceward::Tx;
use onceward_audit::{EntryFilter, RecordedEntry};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// How many entries of a mail are read, latest first.
const AUDIT_ENTRIES: u32 = 50;

/// What a comparison found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ArtifactCheck {
    pub artifact_id: Uuid,
    pub email_id: Uuid,
    pub message_id: String,
    pub message_sha256: String,
    pub message_bytes: i32,
    pub manifest_sha256: String,
    /// The manifest, unless the key was forgotten.
    pub manifest: Option<Value>,
    /// Whether the contact was erased, so that only the hashes are left.
    pub is_erased: bool,
    /// Whether the objects have the hashes of the row, and an audit entry names the same manifest. Neither this nor a
    /// difference while the mail is being sent.
    pub is_verified: bool,
    /// What differs, in sentences.
    pub differences: Vec<String>,
}

/// Compares the artifact of a mail with its objects and with the audit entries of its attempts. Returns `None` if it was not
/// rendered yet.
pub(crate) async fn check_artifact(
    tx: &Tx,
    state: &CrmState,
    email_id: Uuid,
) -> Result<Option<ArtifactCheck>, CrmError> {
    let Some(row) = find_artifact(tx, email_id).await? else { return Ok(None) };
    let mut check = ArtifactCheck {
        artifact_id: row.artifact_id,
        email_id,
        message_id: row.message_id.clone(),
        message_sha256: row.message_sha256.clone(),
        message_bytes: row.message_bytes,
        manifest_sha256: row.manifest_sha256.clone(),
        manifest: None,
        is_erased: false,
        is_verified: false,
        differences: Vec::new(),
    };
    // The entry is committed with the result, so a mail that is being handed over has none yet. The state is read first: a
    // result that is recorded between the two statements is then found with its entry.
    let is_being_sent = is_being_sent(tx, email_id).await?;
    let audited = audited_manifest(tx, email_id).await?;
    let is_pending = audited.is_none() && is_being_sent;
    if !is_pending && audited.as_deref() != Some(row.manifest_sha256.as_str()) {
        check.differences.push("no audit entry of this mail names this manifest".to_owned());
    }
    match state.keys.existing_data_key(tx, row.key_id).await? {
        None => check.is_erased = true,
        Some(key) => compare_objects(tx, state, &row, &key, &mut check).await?,
    }
    check.is_verified = check.differences.is_empty() && !is_pending;
    Ok(Some(check))
}

async fn compare_objects(
    tx: &Tx,
    state: &CrmState,
    row: &ArtifactRow,
    key: &DataKey,
    check: &mut ArtifactCheck,
) -> Result<(), CrmError> {
    let objects = state.objects()?;
    for kind in ["message", "html", "manifest"] {
        let Some(sha256) = row.objects[kind].as_str() else { continue };
        let name = ObjectName::with_hash(tx.tenant()?, check.email_id, kind, sha256.to_owned());
        match objects.get(&name, key).await {
            Ok(content) if kind == "manifest" => check.manifest = serde_json::from_slice(&content).ok(),
            Ok(_) => {}
            Err(CrmError::Db(error)) => return Err(error.into()),
            Err(error) => check.differences.push(format!("the {kind} cannot be verified: {error}")),
        }
    }
    let named = check.manifest.as_ref().map(|manifest| manifest["message_sha256"].as_str().map(str::to_owned));
    if named.flatten().as_deref() != Some(row.message_sha256.as_str()) {
        check.differences.push("the manifest names another message".to_owned());
    }
    Ok(())
}

/// Returns whether a recipient's mail was handed over and its result was not recorded yet.
async fn is_being_sent(tx: &Tx, email_id: Uuid) -> Result<bool, CrmError> {
    let recipients = emails::recipients(tx, email_id).await?;
    Ok(recipients.iter().any(|recipient| recipient.state == RecipientState::HandedOver))
}

/// Returns the manifest that the audit chain names for a mail, in the entry of the latest attempt.
async fn audited_manifest(tx: &Tx, email_id: Uuid) -> Result<Option<String>, CrmError> {
    let filter = EntryFilter {
        object_type: Some("email".to_owned()),
        object_id: Some(email_id.to_string()),
        ..EntryFilter::default()
    };
    let entries = onceward_audit::list(tx, &filter, None, AUDIT_ENTRIES).await?;
    let named = |entry: &RecordedEntry| entry.document()["newValue"]["manifest_sha256"].as_str().map(str::to_owned);
    Ok(entries.iter().find_map(named))
}

/// Returns the exact bytes of a mail, or `None` if it was not rendered yet or the contact was erased.
pub(crate) async fn read_message(tx: &Tx, state: &CrmState, email_id: Uuid) -> Result<Option<Vec<u8>>, CrmError> {
    read_object(tx, state, email_id, "message").await
}

/// Returns the exact bytes of a mail's manifest, or `None` if it was not rendered yet or the contact was erased.
pub(crate) async fn read_manifest(tx: &Tx, state: &CrmState, email_id: Uuid) -> Result<Option<Vec<u8>>, CrmError> {
    read_object(tx, state, email_id, "manifest").await
}

async fn read_object(tx: &Tx, state: &CrmState, email_id: Uuid, kind: &str) -> Result<Option<Vec<u8>>, CrmError> {
    let Some(row) = find_artifact(tx, email_id).await? else { return Ok(None) };
    let Some(key) = state.keys.existing_data_key(tx, row.key_id).await? else { return Ok(None) };
    let Some(sha256) = row.objects[kind].as_str() else { return Ok(None) };
    let name = ObjectName::with_hash(tx.tenant()?, email_id, kind, sha256.to_owned());
    state.objects()?.get(&name, &key).await.map(Some)
}

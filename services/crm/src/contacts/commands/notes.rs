//! Adds and removes notes. Their text appears in the audit chain as its hash.

use super::lock;
use crate::{
    CrmError,
    changes::{self, Change},
    contacts::{model::text_hash, store},
    keys::CrmKeys,
};
use onceward::Tx;
use serde_json::json;
use uuid::Uuid;

/// Adds a note and returns its id.
pub(in crate::contacts) async fn add_note(
    tx: &mut Tx,
    keys: &CrmKeys,
    contact_id: Uuid,
    body: &str,
) -> Result<Uuid, CrmError> {
    lock(tx, contact_id, None).await?;
    let note_id = Uuid::now_v7();
    store::insert_note(tx, contact_id, note_id, body).await?;
    let body = text_hash(&keys.address_hasher(tx).await?, body);
    changes::record(tx, change("CRM.NOTE.ADDED", contact_id, note_id).new_value(json!({ "body": body }))).await?;
    Ok(note_id)
}

/// Removes a note.
pub(in crate::contacts) async fn remove_note(
    tx: &mut Tx,
    keys: &CrmKeys,
    contact_id: Uuid,
    note_id: Uuid,
) -> Result<(), CrmError> {
    lock(tx, contact_id, None).await?;
    let note = store::find_note(tx, contact_id, note_id).await?.ok_or(CrmError::NotFound("note"))?;
    store::delete_note(tx, note_id).await?;
    let body = text_hash(&keys.address_hasher(tx).await?, &note.body);
    changes::record(tx, change("CRM.NOTE.REMOVED", contact_id, note_id).old(json!({ "body": body }))).await
}

fn change(event_type: &'static str, contact_id: Uuid, note_id: Uuid) -> Change {
    Change::new(event_type, "note", note_id).contact(contact_id).detail(json!({ "note_id": note_id }))
}

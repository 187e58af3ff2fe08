//! Notes about contacts.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

const LIST: &str = "
    SELECT note_id, body, author_id, created_at
    FROM crm.note
    WHERE contact_id = $1 AND ($2::uuid IS NULL OR note_id < $2)
    ORDER BY note_id DESC
    LIMIT $3";
const FIND: &str = "SELECT note_id, body, author_id, created_at FROM crm.note WHERE note_id = $1 AND contact_id = $2";
const INSERT: &str = "
    INSERT INTO crm.note (tenant_id, note_id, contact_id, body, author_id)
    VALUES ($1, $2, $3, $4, $5)";
const DELETE: &str = "DELETE FROM crm.note WHERE note_id = $1";
const DELETE_ALL: &str = "DELETE FROM crm.note WHERE contact_id = $1";

/// A note about a contact.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct Note {
    pub note_id: Uuid,
    pub body: String,
    pub author_id: Option<String>,
    pub created_at: Timestamp,
}

/// Returns notes, latest first, that are older than `before`.
pub(in crate::contacts) async fn list_notes(
    tx: &Tx,
    contact_id: Uuid,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Note>, DbError> {
    Ok(tx.query(LIST, &[&contact_id, &before, &limit]).await?.iter().map(read).collect())
}

pub(in crate::contacts) async fn find_note(tx: &Tx, contact_id: Uuid, note_id: Uuid) -> Result<Option<Note>, DbError> {
    Ok(tx.query_opt(FIND, &[&note_id, &contact_id]).await?.as_ref().map(read))
}

pub(in crate::contacts) async fn insert_note(
    tx: &Tx,
    contact_id: Uuid,
    note_id: Uuid,
    body: &str,
) -> Result<(), DbError> {
    let author = &tx.scope().actor.user_id;
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &note_id, &contact_id, &body, author]).await.map(drop)
}

pub(in crate::contacts) async fn delete_note(tx: &Tx, note_id: Uuid) -> Result<(), DbError> {
    tx.execute(DELETE, &[&note_id]).await.map(drop)
}

/// Deletes every note about a contact, and returns their number.
pub(in crate::contacts) async fn delete_notes(tx: &Tx, contact_id: Uuid) -> Result<u64, DbError> {
    tx.execute(DELETE_ALL, &[&contact_id]).await
}

fn read(row: &Row) -> Note {
    Note {
        note_id: row.get("note_id"),
        body: row.get("body"),
        author_id: row.get("author_id"),
        created_at: row.get("created_at"),
    }
}

//! What was done to letters, by whom and why.

use crate::store;
use jiff::Timestamp;
use onceward_db::{Db, DbError};
use serde::Serialize;
use serde_json::Value;

/// Something that was done to a letter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Act {
    /// Its number.
    pub id: i64,
    /// The letter.
    pub letter: i64,
    /// `requeued`, `quarantined` or `collected`.
    pub act: String,
    /// Who did it,
    pub actor: String,
    /// and why.
    pub why: String,
    /// The word of a quarantine.
    pub tag: Option<String>,
    /// When.
    pub at: Timestamp,
    /// What else there is to say.
    pub detail: Value,
    /// The letter's queue,
    pub queue: String,
    /// and its tenant.
    pub tenant: String,
}

/// Up to `limit` acts, the latest first, before the act `before`; on one letter, or on all.
pub async fn history(db: &Db, letter: Option<i64>, before: Option<i64>, limit: u32) -> Result<Vec<Act>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(store::DEAD_LETTER_ACTS, &[&letter, &before, &limit]).await?;
    Ok(rows
        .iter()
        .map(|row| Act {
            id: row.get("id"),
            letter: row.get("dead_letter_id"),
            act: row.get("act"),
            actor: row.get("actor"),
            why: row.get("why"),
            tag: row.get("tag"),
            at: row.get("at"),
            detail: row.get("detail"),
            queue: row.get("queue"),
            tenant: row.get("tenant_id"),
        })
        .collect())
}

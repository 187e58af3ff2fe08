//! The history of actions on dead letters: what, by whom and why.

use jiff::Timestamp;
use onceward_db::{Db, DbError};
use serde::Serialize;
use serde_json::Value;

// In `migrations/0016_dead_letters.sql`:
const DEAD_LETTER_ACTS: &str = "SELECT * FROM onceward.dead_letter_acts($1, $2, $3)";

/// An action on a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriageAction {
    /// Its number.
    pub id: i64,
    /// The letter.
    pub letter: i64,
    /// `requeued`, `quarantined`, `collected`, `released` or `cancelled`.
    pub act: String,
    /// The operator.
    pub actor: String,
    /// The reason.
    pub why: String,
    /// The tag of a quarantine.
    pub tag: Option<String>,
    /// When it was done.
    pub at: Timestamp,
    /// Further details.
    pub detail: Value,
    /// The letter's queue.
    pub queue: String,
    /// The letter's tenant.
    pub tenant: String,
}

/// Returns up to `limit` actions, latest first, older than the action `before`; on one letter, or on all.
pub async fn history(
    db: &Db,
    letter: Option<i64>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<TriageAction>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(DEAD_LETTER_ACTS, &[&letter, &before, &limit]).await?;
    Ok(rows
        .iter()
        .map(|row| TriageAction {
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

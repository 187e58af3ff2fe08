//! What waits in the outbox for an external bus, and offering it again.

use crate::store;
use onceward_db::{Db, DbError};
use serde::Serialize;
use uuid::Uuid;

/// How many of each kind are counted one by one.
pub const SAMPLE: i32 = 10_000;
/// How many refused messages are hurried at once.
const HURRIED: i32 = 10_000;

/// What was put aside in the outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aside {
    /// All of it: refused, delayed, requeued, and what stands behind those; at most [`SAMPLE`] of a kind.
    pub put_aside: i64,
    /// Age of the oldest.
    pub oldest_seconds: f64,
    /// What the bus refused and is offered again later.
    pub refused: i64,
    /// When the next of it is due.
    pub next_due_ms: Option<i64>,
    /// What the bus said of one.
    pub last_error: Option<String>,
}

/// What was put aside in the outbox.
pub async fn aside(db: &Db) -> Result<Aside, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(store::OUTBOX_ASIDE, &[&SAMPLE]).await?;
    let row = &rows[0];
    Ok(Aside {
        put_aside: row.get(0),
        oldest_seconds: row.get(1),
        refused: row.get(2),
        next_due_ms: row.get(3),
        last_error: row.get(4),
    })
}

/// Offers what the bus refused again now instead of later: all, or the message of one event. Gives how many.
pub async fn retry(db: &Db, event_id: Option<Uuid>) -> Result<i64, DbError> {
    let connection = db.connection().await?;
    Ok(connection.query(store::RETRY_OUTBOX, &[&event_id, &HURRIED]).await?[0].get(0))
}

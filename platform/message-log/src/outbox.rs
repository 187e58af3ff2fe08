//! Deferred messages in the outbox, and retrying those that the external bus refused.

use crate::triage::{Operator, audit};
use onceward_audit::Entry;
use onceward_db::{Db, DbError, Scope};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

// In `migrations/0011_relay.sql`:
const OUTBOX_ASIDE: &str =
    "SELECT put_aside, oldest_seconds, refused, next_due_ms, last_error, is_more FROM onceward.outbox_aside($1)";
const RETRY_OUTBOX: &str = "SELECT onceward.retry_outbox($1, $2)";

/// How many messages are counted individually.
pub const SAMPLE: i32 = 10_000;
/// The maximum number of refused messages that one retry makes due.
const RETRIED_AT_MOST: i32 = 10_000;

/// The deferred messages of the outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeferredOutbox {
    /// All deferred messages: refused, delayed, requeued, and those waiting behind them; at most [`SAMPLE`].
    #[serde(rename = "putAside")]
    pub deferred: i64,
    /// Whether more exist than were counted.
    pub is_more: bool,
    /// Age of the oldest one.
    pub oldest_seconds: f64,
    /// Messages that the bus refused and that will be retried.
    pub refused: i64,
    /// Milliseconds until the next deferred message is due.
    pub next_due_ms: Option<i64>,
    /// The bus's error for one of them.
    pub last_error: Option<String>,
}

/// Returns the deferred messages of the outbox.
pub async fn deferred(db: &Db) -> Result<DeferredOutbox, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(OUTBOX_ASIDE, &[&SAMPLE]).await?;
    let row = &rows[0];
    Ok(DeferredOutbox {
        deferred: row.get(0),
        oldest_seconds: row.get(1),
        refused: row.get(2),
        next_due_ms: row.get(3),
        last_error: row.get(4),
        is_more: row.get(5),
    })
}

/// Retries now what the bus refused, instead of when it is due: all of it, or the message of one event. Returns the
/// number of messages, which is recorded in the platform's audit chain unless it is 0.
pub async fn retry(db: &Db, event_id: Option<Uuid>, operator: &Operator) -> Result<i64, DbError> {
    let mut tx = db.begin(Scope::platform("triage")).await?;
    let retried: i64 = tx.query_one(RETRY_OUTBOX, &[&event_id, &RETRIED_AT_MOST]).await?.get(0);
    if retried == 0 {
        tx.rollback().await?;
        return Ok(0);
    }
    let details = [("offered", json!(retried)), ("eventId", json!(event_id))];
    audit::record(&mut tx, operator, None, Entry::new("outbox_retried"), details)?;
    tx.commit().await?;
    Ok(retried)
}

//! The SQL of explanations.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde_json::{Value, json};
use uuid::Uuid;

const ATTEMPTS: &str = "SELECT position, provider, outcome, steps, started_at, duration_ms
    FROM crm.send_attempt WHERE email_id = $1 ORDER BY started_at, position LIMIT 1000";
const FEEDBACK: &str = "SELECT position, kind, is_hard, status_code, class, source, occurred_at
    FROM crm.feedback WHERE email_id = $1 ORDER BY occurred_at LIMIT 1000";

/// Returns the calls of providers for a mail, oldest first.
pub(super) async fn provider_calls(tx: &Tx, email_id: Uuid) -> Result<Vec<Value>, DbError> {
    let rows = tx.query(ATTEMPTS, &[&email_id]).await?;
    let attempt = |row: &Row| {
        json!({
            "position": row.get::<_, i16>(0),
            "provider": row.get::<_, String>(1),
            "outcome": row.get::<_, String>(2),
            "steps": row.get::<_, Value>(3),
            "started_at": row.get::<_, Timestamp>(4),
            "duration_ms": row.get::<_, i32>(5),
        })
    };
    Ok(rows.iter().map(attempt).collect())
}

/// Returns what came back about a mail, oldest first.
pub(super) async fn feedback(tx: &Tx, email_id: Uuid) -> Result<Vec<Value>, DbError> {
    let rows = tx.query(FEEDBACK, &[&email_id]).await?;
    let entry = |row: &Row| {
        json!({
            "position": row.get::<_, i16>(0),
            "kind": row.get::<_, String>(1),
            "is_hard": row.get::<_, bool>(2),
            "status_code": row.get::<_, Option<String>>(3),
            "class": row.get::<_, Option<String>>(4),
            "source": row.get::<_, String>(5),
            "occurred_at": row.get::<_, Timestamp>(6),
        })
    };
    Ok(rows.iter().map(entry).collect())
}

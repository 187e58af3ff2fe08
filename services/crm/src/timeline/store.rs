//! The SQL of timelines. Row-level security restricts every statement to the tenant.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const INSERT: &str = "
    INSERT INTO crm.timeline (tenant_id, contact_id, entry_id, occurred_at, event_type, email_id, actor, detail)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM crm.timeline WHERE contact_id = $1";
const LIST: &str = "
    SELECT contact_id, entry_id, occurred_at, event_type, email_id, actor, detail
    FROM crm.timeline
    WHERE contact_id = $1 AND ($2::timestamptz IS NULL OR (occurred_at, entry_id) < ($2, $3::uuid))
    ORDER BY occurred_at DESC, entry_id DESC
    LIMIT $4";

/// One line of a timeline. It contains nothing personal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TimelineLine {
    #[serde(skip)]
    pub contact_id: Uuid,
    pub entry_id: Uuid,
    pub occurred_at: Timestamp,
    pub event_type: String,
    pub email_id: Option<Uuid>,
    pub actor: Option<String>,
    pub detail: Value,
}

/// Inserts a line, unless it exists.
pub(crate) async fn insert(tx: &Tx, line: &TimelineLine) -> Result<(), DbError> {
    let TimelineLine { contact_id, entry_id, occurred_at, event_type, email_id, actor, detail } = line;
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT, &[&tenant, contact_id, entry_id, occurred_at, event_type, email_id, actor, detail])
        .await
        .map(drop)
}

/// Deletes all lines of a contact.
pub(super) async fn delete(tx: &Tx, contact_id: Uuid) -> Result<(), DbError> {
    tx.execute(DELETE, &[&contact_id]).await.map(drop)
}

/// Returns at most `limit` lines of a contact, latest first, that are older than `before`.
pub(super) async fn list(
    tx: &Tx,
    contact_id: Uuid,
    before: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<TimelineLine>, DbError> {
    let (time, entry_id) = before.unzip();
    let rows = tx.query(LIST, &[&contact_id, &time, &entry_id, &limit]).await?;
    let lines = rows.iter().map(|row| TimelineLine {
        contact_id: row.get(0),
        entry_id: row.get(1),
        occurred_at: row.get(2),
        event_type: row.get(3),
        email_id: row.get(4),
        actor: row.get(5),
        detail: row.get(6),
    });
    Ok(lines.collect())
}

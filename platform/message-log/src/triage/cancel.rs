//! Cancels a message that no worker has handled yet: it becomes a dead letter instead.

use super::{Operator, audit};
use onceward_audit::Entry;
use onceward_db::{Db, DbError, Row, Scope};
use onceward_envelope::TenantId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use uuid::Uuid;

// In `migrations/0020_cancel.sql`:
const CANCEL: &str = "SELECT * FROM onceward.cancel($1, $2, $3, $4, $5)";

/// What became of a message in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// It is a dead letter now.
    Cancelled,
    /// It is on its way over the bus, and becomes a dead letter when it arrives.
    CancelledOnArrival,
    /// A worker holds it, so it is not cancelled.
    InFlight,
    /// It is a dead letter already, or was cancelled before.
    AlreadyDead,
    /// It was handled before.
    Handled,
}

impl CancelOutcome {
    fn parse(word: &str) -> Self {
        match word {
            "cancelled" => Self::Cancelled,
            "arrival" => Self::CancelledOnArrival,
            "in_flight" => Self::InFlight,
            "dead" => Self::AlreadyDead,
            _ => Self::Handled,
        }
    }

    /// Returns whether this call cancelled the message.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Cancelled | Self::CancelledOnArrival)
    }
}

/// A message in one queue, after an attempt to cancel it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledMessage {
    /// The queue; the outbox if it had not been relayed to the bus.
    pub queue: String,
    /// What became of it.
    pub outcome: CancelOutcome,
    /// Its dead letter.
    pub letter: Option<i64>,
    /// The tenant.
    pub tenant: String,
    /// The event type, without its version.
    pub event_type: String,
}

impl CancelledMessage {
    fn from_row(row: &Row) -> Self {
        Self {
            queue: row.get("queue"),
            outcome: CancelOutcome::parse(row.get("outcome")),
            letter: row.get("letter"),
            tenant: row.get("tenant_id"),
            event_type: row.get("event_type"),
        }
    }
}

/// Cancels a message, in one queue or in all. Returns what became of it in each queue; nothing if its id is unknown.
/// `readers` maps each queue to its consumer. A rehearsal is rolled back. Waits for turns in its lanes, and fails if a
/// worker stays in one of them for ten seconds.
pub async fn cancel(
    db: &Db,
    event_id: Uuid,
    queue: Option<&str>,
    readers: &HashMap<String, String>,
    operator: &Operator,
    rehearse: bool,
) -> Result<Vec<CancelledMessage>, DbError> {
    let readers: Map<String, Value> =
        readers.iter().map(|(queue, consumer)| (queue.clone(), consumer.as_str().into())).collect();
    let mut tx = db.begin(Scope::platform("triage")).await?;
    let params: [&(dyn onceward_db::ToSql + Sync); 5] =
        [&event_id, &queue, &Value::from(readers), &operator.name, &operator.why];
    let rows = tx.query(CANCEL, &params).await?;
    let messages: Vec<CancelledMessage> = rows.iter().map(CancelledMessage::from_row).collect();
    if rehearse {
        tx.rollback().await?;
        return Ok(messages);
    }
    for message in messages.iter().filter(|message| message.outcome.is_done()) {
        let entry = Entry::new("message_cancelled").object("message", event_id);
        let details = [
            ("queue", json!(message.queue)),
            ("type", json!(message.event_type)),
            ("deadLetter", json!(message.letter)),
        ];
        audit::record(&mut tx, operator, TenantId::new(&message.tenant).ok().as_ref(), entry, details)?;
    }
    tx.commit().await?;
    Ok(messages)
}

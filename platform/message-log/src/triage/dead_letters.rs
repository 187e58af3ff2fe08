//! Queries dead letters.

use jiff::Timestamp;
use onceward_db::{Db, DbError, Row};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fmt, time::Duration};
use uuid::Uuid;

// In `migrations/0016_dead_letters.sql`:
const FIND_DEAD_LETTERS: &str = "SELECT * FROM onceward.find_dead_letters($1, $2, $3)";
const DEAD_LETTERS_IN_ORDER: &str = "SELECT onceward.dead_letters_in_order($1, $2, $3)";
const DEAD_LETTERS_IN_FULL: &str = "SELECT * FROM onceward.dead_letters_in_full($1)";

/// The status of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeadLetterStatus {
    /// It is open: no operator has acted on it.
    Dead,
    /// Its message was requeued.
    Requeued,
    /// It was quarantined.
    Quarantined,
}

impl DeadLetterStatus {
    /// The word that is stored and displayed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Requeued => "requeued",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for DeadLetterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Selects letters; `None` fields do not restrict the selection.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    /// Their status.
    pub status: Option<DeadLetterStatus>,
    /// The queue in which they died.
    pub queue: Option<String>,
    /// Their tenant.
    pub tenant: Option<String>,
    /// `order.placed` for all its versions, or `order.placed.v1`.
    pub event_type: Option<String>,
    /// Why they died.
    pub reason: Option<String>,
    /// The event id.
    pub event_id: Option<Uuid>,
    /// Whether they hold their keys.
    pub holds_key: Option<bool>,
    /// They died longer ago than this.
    pub older_than: Option<Duration>,
    /// They died within this time.
    pub newer_than: Option<Duration>,
}

impl DeadLetterFilter {
    fn to_json(&self) -> Value {
        let (name, version) = self.event_type.as_deref().map(name_and_version).unzip();
        let ms = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1));
        json!({
            "status": self.status, "queue": self.queue, "tenant": self.tenant, "event_type": name,
            "version": version.flatten(), "reason": self.reason, "event_id": self.event_id,
            "holds_key": self.holds_key, "older_ms": ms(self.older_than), "newer_ms": ms(self.newer_than),
        })
    }
}

fn name_and_version(event_type: &str) -> (&str, Option<u16>) {
    let version = event_type.rsplit_once(".v").and_then(|(name, version)| Some((name, version.parse().ok()?)));
    version.map_or((event_type, None), |(name, version)| (name, Some(version)))
}

fn full_type(row: &Row) -> String {
    match (row.get::<_, &str>("event_type"), row.get::<_, i32>("version")) {
        (name, 0) => name.to_owned(),
        (name, version) => format!("{name}.v{version}"),
    }
}

/// A letter in one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterSummary {
    /// Its number.
    pub id: i64,
    /// When its message died.
    pub dead_at: Timestamp,
    /// The queue in which it died.
    pub queue: String,
    /// The tenant.
    pub tenant: String,
    /// The event's id.
    pub event_id: Uuid,
    /// The event type, as in `order.placed.v1`.
    pub event_type: String,
    /// The ordering key. Messages with equal keys are handled one after the other.
    pub ordering_key: Option<String>,
    /// The story it belongs to.
    pub correlation_id: String,
    /// Why it died, as one word.
    pub reason: String,
    /// The number of attempts.
    pub attempts: i32,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// Its status.
    pub status: String,
    /// The tag of its quarantine.
    pub tag: Option<String>,
    /// Whether it holds its ordering key: later messages of the key wait until it is requeued or released.
    pub holds_key: bool,
}

impl DeadLetterSummary {
    fn from_row(row: &Row) -> Self {
        Self {
            id: row.get("id"),
            dead_at: row.get("dead_at"),
            queue: row.get("queue"),
            tenant: row.get("tenant_id"),
            event_id: row.get("event_id"),
            event_type: full_type(row),
            ordering_key: row.get("ordering_key"),
            correlation_id: row.get("correlation_id"),
            reason: row.get("reason"),
            attempts: row.get("attempts"),
            last_error: row.get("last_error"),
            status: row.get("status"),
            tag: row.get("tag"),
            holds_key: row.get("holds_key"),
        }
    }
}

/// A letter with all details. Its message contains the payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterDetails {
    /// The letter in one line.
    #[serde(flatten)]
    pub summary: DeadLetterSummary,
    /// The consumer that handled it.
    pub consumer: String,
    /// The exchange to which the queue sends copies of its dead letters.
    pub dead_letter_exchange: Option<String>,
    /// The error of the first attempt.
    pub first_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// How many times its message was requeued before it died this time.
    pub requeues: i32,
    /// The message as it is stored.
    pub message: Value,
    /// Its failed attempts, oldest first: `attempt`, `at` and `error`.
    pub attempt_log: Value,
}

/// Returns up to `limit` letters, latest first, starting after the letter `after`.
pub async fn list(
    db: &Db,
    filter: &DeadLetterFilter,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<DeadLetterSummary>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(FIND_DEAD_LETTERS, &[&filter.to_json(), &after, &limit]).await?;
    Ok(rows.iter().map(DeadLetterSummary::from_row).collect())
}

/// Returns the ids of up to `limit` letters, in the order in which their messages were published.
pub async fn in_order(db: &Db, filter: &DeadLetterFilter, limit: u32) -> Result<Vec<i64>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    order(db, None, filter, limit).await
}

/// Returns those of `ids` that exist, in the order in which their messages were published.
pub(super) async fn existing_in_order(db: &Db, ids: &[i64]) -> Result<Vec<i64>, DbError> {
    order(db, Some(ids), &DeadLetterFilter::default(), i32::MAX).await
}

async fn order(db: &Db, ids: Option<&[i64]>, filter: &DeadLetterFilter, limit: i32) -> Result<Vec<i64>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(DEAD_LETTERS_IN_ORDER, &[&ids, &filter.to_json(), &limit]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Returns these letters with all details, in this order. Those that do not exist are left out.
pub async fn details(db: &Db, ids: &[i64]) -> Result<Vec<DeadLetterDetails>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(DEAD_LETTERS_IN_FULL, &[&ids]).await?;
    let details = |row: &Row| DeadLetterDetails {
        summary: DeadLetterSummary::from_row(row),
        consumer: row.get("consumer"),
        dead_letter_exchange: row.get("dead_letter_exchange"),
        first_error: row.get("first_error"),
        first_failed_at: row.get("first_failed_at"),
        requeues: row.get("requeues"),
        message: row.get("message"),
        attempt_log: row.get("attempt_log"),
    };
    Ok(rows.iter().map(details).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_is_filtered_with_or_without_its_version() {
        assert_eq!(name_and_version("order.placed.v12"), ("order.placed", Some(12)));
        assert_eq!(name_and_version("order.placed"), ("order.placed", None));
        assert_eq!(name_and_version("car.vroom"), ("car.vroom", None));
    }
}

//! Looking at dead letters.

use crate::store;
use jiff::Timestamp;
use onceward_db::{Db, DbError, Row};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fmt, time::Duration};
use uuid::Uuid;

/// What has become of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nobody has dealt with it.
    Dead,
    /// Its message was put back into its queue.
    Requeued,
    /// It was taken out of the way.
    Quarantined,
}

impl Status {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Requeued => "requeued",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which letters; what is not named is not asked for.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// What has become of them.
    pub status: Option<Status>,
    /// The queue in which they died.
    pub queue: Option<String>,
    /// Whose they are.
    pub tenant: Option<String>,
    /// `order.placed` for all its versions, or `order.placed.v1`.
    pub event_type: Option<String>,
    /// Why they died.
    pub reason: Option<String>,
    /// The event's id.
    pub event_id: Option<Uuid>,
    /// They died longer ago than this,
    pub older_than: Option<Duration>,
    /// or within this time.
    pub newer_than: Option<Duration>,
}

impl Filter {
    fn to_json(&self) -> Value {
        let (name, version) = self.event_type.as_deref().map(name_and_version).unzip();
        let ms = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX >> 1));
        json!({
            "status": self.status, "queue": self.queue, "tenant": self.tenant, "event_type": name,
            "version": version.flatten(), "reason": self.reason, "event_id": self.event_id,
            "older_ms": ms(self.older_than), "newer_ms": ms(self.newer_than),
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

/// A letter in a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its number.
    pub id: i64,
    /// When its message died.
    pub dead_at: Timestamp,
    /// In which queue.
    pub queue: String,
    /// Whose it is.
    pub tenant: String,
    /// The event's id.
    pub event_id: Uuid,
    /// `order.placed.v1`.
    pub event_type: String,
    /// Messages with equal keys are handled one after the other.
    pub ordering_key: Option<String>,
    /// The story it belongs to.
    pub correlation_id: String,
    /// Why it died, in a word.
    pub reason: String,
    /// How often it was tried.
    pub attempts: i32,
    /// What the last attempt said.
    pub last_error: Option<String>,
    /// What has become of it.
    pub status: String,
    /// Under which word it is quarantined.
    pub tag: Option<String>,
}

impl Summary {
    fn of(row: &Row) -> Self {
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
        }
    }
}

/// A letter with all there is. Its message holds the payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// The letter in a line.
    #[serde(flatten)]
    pub summary: Summary,
    /// Who handled it.
    pub consumer: String,
    /// Where the queue sends copies of what it gives up on.
    pub dead_letter_exchange: Option<String>,
    /// What the first attempt said.
    pub first_error: Option<String>,
    /// When that was.
    pub first_failed_at: Option<Timestamp>,
    /// How often its message was put back before it died this time.
    pub requeues: i32,
    /// The message as it is stored.
    pub message: Value,
}

/// Up to `limit` letters, the latest first, from behind the letter `after`.
pub async fn list(db: &Db, filter: &Filter, after: Option<i64>, limit: u32) -> Result<Vec<Summary>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(store::FIND_DEAD_LETTERS, &[&filter.to_json(), &after, &limit]).await?;
    Ok(rows.iter().map(Summary::of).collect())
}

/// The ids of up to `limit` letters, in the order in which their messages were published.
pub async fn in_order(db: &Db, filter: &Filter, limit: u32) -> Result<Vec<i64>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    order(db, None, filter, limit).await
}

/// Those of `ids` that exist, in the order in which their messages were published.
pub(super) async fn of_these_in_order(db: &Db, ids: &[i64]) -> Result<Vec<i64>, DbError> {
    order(db, Some(ids), &Filter::default(), i32::MAX).await
}

async fn order(db: &Db, ids: Option<&[i64]>, filter: &Filter, limit: i32) -> Result<Vec<i64>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(store::DEAD_LETTERS_IN_ORDER, &[&ids, &filter.to_json(), &limit]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// These letters with all there is, in this order; those that do not exist are left out.
pub async fn letters(db: &Db, ids: &[i64]) -> Result<Vec<Letter>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(store::DEAD_LETTERS_IN_FULL, &[&ids]).await?;
    let letter = |row: &Row| Letter {
        summary: Summary::of(row),
        consumer: row.get("consumer"),
        dead_letter_exchange: row.get("dead_letter_exchange"),
        first_error: row.get("first_error"),
        first_failed_at: row.get("first_failed_at"),
        requeues: row.get("requeues"),
        message: row.get("message"),
    };
    Ok(rows.iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_may_be_asked_for_with_or_without_its_version() {
        assert_eq!(name_and_version("order.placed.v12"), ("order.placed", Some(12)));
        assert_eq!(name_and_version("order.placed"), ("order.placed", None));
        assert_eq!(name_and_version("car.vroom"), ("car.vroom", None));
    }
}

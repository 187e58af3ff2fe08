//! Messages published to a topic to which no queue is bound: they are kept with the log and never handled.

use jiff::Timestamp;
use onceward_db::{Db, DbError};
use parking_lot::Mutex;
use serde::Serialize;
use std::{collections::HashMap, sync::OnceLock, time::Duration};
use tokio::time::Instant;

// In `migrations/0013_figures.sql`:
const UNROUTED: &str =
    "SELECT exchange, event_type, messages, is_more, example, first_at, last_at FROM onceward.unrouted($1)";

/// How many of the latest messages of a type are counted individually.
pub const SAMPLE: i32 = 1_000;

/// Unrouted messages of one type that are still in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnroutedMessages {
    /// The exchange to which they were published.
    pub exchange: String,
    /// Their type and version.
    pub event_type: String,
    /// The number of messages; at most [`SAMPLE`] are counted.
    pub messages: i64,
    /// Whether more exist than were counted.
    pub is_more: bool,
    /// The topic of one of them.
    pub example_topic: String,
    /// When the first of them was published.
    pub first_at: Timestamp,
    /// When the last of them was published.
    pub last_at: Timestamp,
}

/// Returns the unrouted messages, the most frequent first.
pub async fn unrouted(db: &Db) -> Result<Vec<UnroutedMessages>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(UNROUTED, &[&SAMPLE]).await?;
    Ok(rows
        .iter()
        .map(|row| UnroutedMessages {
            exchange: row.get(0),
            event_type: row.get(1),
            messages: row.get(2),
            is_more: row.get(3),
            example_topic: row.get(4),
            first_at: row.get(5),
            last_at: row.get(6),
        })
        .collect())
}

/// Returns the total number of messages, and `true` if more exist than were counted.
pub fn total<'a>(unrouted: impl IntoIterator<Item = &'a UnroutedMessages>) -> (i64, bool) {
    unrouted.into_iter().fold((0, false), |(messages, is_more), one| (messages + one.messages, is_more || one.is_more))
}

/// The minimum interval between warnings about one event type.
const WARNING_INTERVAL: Duration = Duration::from_secs(600);
/// The maximum number of event types remembered; beyond that, warnings stop so that the memory does not grow.
const TYPES_AT_MOST: usize = 1_000;

type IsExpected = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Rate-limited warnings in the log.
#[derive(Default)]
pub(crate) struct UnroutedWarnings {
    warned: Mutex<HashMap<String, Instant>>,
    is_expected: OnceLock<IsExpected>,
}

impl UnroutedWarnings {
    /// Sets which event types need no handler; no warnings are logged for them.
    pub(crate) fn expect(&self, is_expected: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let _ = self.is_expected.set(Box::new(is_expected));
    }

    /// Records that a message of this type was committed without a route.
    pub(crate) fn record(&self, topic: &str, event_type: &str) {
        let is_expected = || self.is_expected.get().is_some_and(|is_expected| is_expected(event_type));
        if self.is_due(event_type, Instant::now()) && !is_expected() {
            tracing::warn!(
                topic,
                event_type,
                "no queue is bound to this topic, so the message will not be handled; bind a queue to it, or correct the topic \
                 (`onceward outbox status` lists such messages)"
            );
        }
    }

    fn is_due(&self, event_type: &str, now: Instant) -> bool {
        let mut warned = self.warned.lock();
        let is_recent = |last: &Instant| now.duration_since(*last) < WARNING_INTERVAL;
        let is_full = warned.len() >= TYPES_AT_MOST && !warned.contains_key(event_type);
        if is_full || warned.get(event_type).is_some_and(is_recent) {
            return false;
        }
        warned.insert(event_type.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_about_one_event_type_are_rate_limited() {
        let warnings = UnroutedWarnings::default();
        let now = Instant::now();
        assert!(warnings.is_due("a.v1", now));
        assert!(!warnings.is_due("a.v1", now + WARNING_INTERVAL / 2));
        assert!(warnings.is_due("b.v1", now));
        assert!(warnings.is_due("a.v1", now + WARNING_INTERVAL));
    }

    #[test]
    fn the_memory_of_warnings_is_bounded() {
        let warnings = UnroutedWarnings::default();
        let now = Instant::now();
        let due = (0..TYPES_AT_MOST + 10).filter(|number| warnings.is_due(&number.to_string(), now)).count();
        assert_eq!(due, TYPES_AT_MOST);
    }
}

//! Queue figures, at a cost that does not grow with the queues.

use jiff::Timestamp;
use onceward_db::{Db, DbError, Row};
use std::{collections::HashMap, time::Duration};

// In `migrations/0013_figures.sql`:
const QUEUE_STATS: &str =
    "SELECT queue, depth, lag_seconds, deferred, dead, deferred_is_more, dead_is_more FROM onceward.queue_stats($1)";
const UNKNOWN_MESSAGES: &str =
    "SELECT queue, messages, is_more, oldest_seconds, event_types FROM onceward.unknown_messages($1)";
// In `migrations/0012_land.sql`:
const NOTE_BACKLOGS: &str =
    "SELECT queue, oldest_at FROM onceward.note_backlogs($1, $2, $3::bigint * interval '1 millisecond', $4)";
// In `migrations/0019_held_keys.sql`:
const HELD_KEYS: &str = "SELECT queue, keys, is_more, longest_seconds FROM onceward.held_keys($1)";

/// One queue's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// Messages waiting; exact up to [`SAMPLE`] per lane, extrapolated beyond.
    pub depth: i64,
    /// Age of the oldest unfinished message: waiting, in retry, blocked behind one of those, or leased. The age of a
    /// message that was delayed on purpose counts from the time at which it was due.
    pub lag_seconds: f64,
    /// Deferred messages (retries, delays, leases, and those waiting behind them), at most [`SAMPLE`].
    pub deferred: i64,
    /// Whether more exist than were counted.
    pub deferred_is_more: bool,
    /// Open dead letters, at most [`SAMPLE`].
    pub dead: i64,
    /// Whether more exist than were counted.
    pub dead_is_more: bool,
}

/// Formats a count for people: `1000+` if more exist than were counted.
pub fn at_least(count: i64, is_more: bool) -> String {
    format!("{count}{}", if is_more { "+" } else { "" })
}

/// How many messages are counted individually.
pub const SAMPLE: i32 = 1_000;

/// Returns the figures of every queue.
pub async fn queue_stats(db: &Db) -> Result<Vec<QueueStats>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(QUEUE_STATS, &[&SAMPLE]).await?;
    Ok(rows
        .iter()
        .map(|row| QueueStats {
            queue: row.get(0),
            depth: row.get(1),
            lag_seconds: row.get(2),
            deferred: row.get(3),
            dead: row.get(4),
            deferred_is_more: row.get(5),
            dead_is_more: row.get(6),
        })
        .collect())
}

/// Records how many messages were waiting in queues of a bus that cannot report their age. For each queue with
/// messages, returns a time before which none of them was published. `age` is how long ago the bus was queried, and
/// `in_flight` how many messages of a queue its readers may have had in flight then.
pub async fn record_backlogs(
    db: &Db,
    waiting: &[(String, u64)],
    age: Duration,
    in_flight: usize,
) -> Result<HashMap<String, Timestamp>, DbError> {
    let queues: Vec<&str> = waiting.iter().map(|(queue, _)| queue.as_str()).collect();
    let counts: Vec<i64> = waiting.iter().map(|(_, count)| i64::try_from(*count).unwrap_or(i64::MAX)).collect();
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let in_flight = i64::try_from(in_flight).unwrap_or(i64::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(NOTE_BACKLOGS, &[&queues, &counts, &age_ms, &in_flight]).await?;
    Ok(rows.iter().filter_map(|row| Some((row.get(0), row.get::<_, Option<Timestamp>>(1)?))).collect())
}

/// The keys of a queue that dead letters hold. Later messages of these keys wait.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldKeys {
    /// The queue.
    pub queue: String,
    /// The number of keys; at most [`SAMPLE`] are counted.
    pub keys: i64,
    /// Whether more exist than were counted.
    pub is_more: bool,
    /// How long the first of them has been held.
    pub longest_seconds: f64,
}

/// Returns the held keys of the queues that have any.
pub async fn held_keys(db: &Db) -> Result<Vec<HeldKeys>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(HELD_KEYS, &[&SAMPLE]).await?;
    let held =
        |row: &Row| HeldKeys { queue: row.get(0), keys: row.get(1), is_more: row.get(2), longest_seconds: row.get(3) };
    Ok(rows.iter().map(held).collect())
}

/// Messages of a queue whose type or version no running worker knows. Other messages of their keys wait behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownMessages {
    /// The queue.
    pub queue: String,
    /// The number of messages; at most [`SAMPLE`] are counted.
    pub messages: i64,
    /// Whether more exist than were counted.
    pub is_more: bool,
    /// How long ago the oldest of them was published; 0 if none exist.
    pub oldest_seconds: f64,
    /// Some of their types, with versions.
    pub event_types: Vec<String>,
}

/// Returns the messages of unknown types of every queue.
pub async fn unknown_messages(db: &Db) -> Result<Vec<UnknownMessages>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(UNKNOWN_MESSAGES, &[&SAMPLE]).await?;
    Ok(rows
        .iter()
        .map(|row| UnknownMessages {
            queue: row.get(0),
            messages: row.get(1),
            is_more: row.get(2),
            oldest_seconds: row.get(3),
            event_types: row.get(4),
        })
        .collect())
}

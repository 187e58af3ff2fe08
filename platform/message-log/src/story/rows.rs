//! The rows of a story, as the functions of `0021_story.sql` return them.

use jiff::Timestamp;
use onceward_db::Row;
use serde_json::Value;
use uuid::Uuid;

/// One message in one queue, or in the outbox.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Its number.
    pub seq: i64,
    /// The transaction that wrote it.
    pub xid: String,
    /// The copy's number; 0 is the publisher's own row.
    pub copy: i16,
    /// The queue it was appended to; `None` if it went to none, or was deferred.
    pub queue: Option<String>,
    /// When it was written: just before its commit.
    pub written_at: Timestamp,
    /// The message itself.
    pub message: StoryMessageRow,
    /// The aggregate's type and id.
    pub aggregate: Option<(String, String)>,
    /// The lane's last turn has read past it: it was handled, deferred or became a dead letter.
    pub read: bool,
    /// When a relay published its batch to the bus.
    pub relayed_at: Option<Timestamp>,
    /// When it landed from the bus.
    pub landed_at: Option<Timestamp>,
}

/// The fields that every kind of row has about its message.
#[derive(Clone, Debug)]
pub struct StoryMessageRow {
    /// The event's id.
    pub id: Uuid,
    /// The event type, as in `order.placed.v1`.
    pub event_type: String,
    /// The topic, as `<exchange>:<routing key>`.
    pub topic: String,
    /// The tenant.
    pub tenant: String,
    /// When the event happened.
    pub occurred_at: Option<Timestamp>,
    /// Messages with equal keys are handled in order.
    pub ordering_key: Option<String>,
    /// The id of the message that caused it.
    pub causation_id: Option<String>,
}

/// A deferred message.
#[derive(Clone, Debug)]
pub struct DeferredRow {
    /// The message itself.
    pub message: StoryMessageRow,
    /// The queue it waits for.
    pub queue: String,
    /// `delayed`, `retry`, `waiting`, `parked` or `leased`.
    pub state: String,
    /// When it is due; `None` if it waits for its predecessor to be settled.
    pub due_at: Option<Timestamp>,
    /// Attempts so far.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The latest error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// When the message was written.
    pub written_at: Timestamp,
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetterRow {
    /// Its number.
    pub letter: i64,
    /// The message itself.
    pub message: StoryMessageRow,
    /// The queue it died in.
    pub queue: String,
    /// The consumer that gave up on it.
    pub consumer: String,
    /// `dead`, `requeued` or `quarantined`.
    pub status: String,
    /// Why it is quarantined, as one word.
    pub tag: Option<String>,
    /// Why it died, as one word.
    pub reason: String,
    /// The number of attempts.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it died.
    pub dead_at: Timestamp,
    /// What operators did with it, in order.
    pub acts: Value,
    /// How many messages of its key wait behind it; `None` if it does not hold its key.
    pub followers: Option<i64>,
    /// Its failed attempts, oldest first: `attempt`, `at` and `error`.
    pub attempt_log: Value,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// The message's id.
    pub id: Uuid,
    /// The queue in which it was tried.
    pub queue: String,
    /// The number of the attempt, starting at 1.
    pub attempt: i32,
    /// When it failed.
    pub at: Timestamp,
    /// Why it failed.
    pub error: String,
}

impl AttemptRow {
    pub(super) fn read(row: &Row) -> Self {
        Self {
            id: row.get("id"),
            queue: row.get("queue"),
            attempt: row.get("attempt"),
            at: row.get("at"),
            error: row.get("error"),
        }
    }
}

impl StoryMessageRow {
    fn read(row: &Row) -> Self {
        Self {
            id: row.get("id"),
            event_type: row.get("event_type"),
            topic: row.get::<_, Option<String>>("topic").unwrap_or_default(),
            tenant: row.get("tenant_id"),
            occurred_at: row.get("occurred_at"),
            ordering_key: row.get("ordering_key"),
            causation_id: row.get("causation_id"),
        }
    }
}

impl LogRow {
    pub(super) fn read(row: &Row) -> Self {
        let kind: Option<String> = row.get("aggregate_type");
        Self {
            seq: row.get("seq"),
            xid: row.get("xid"),
            copy: row.get("copy"),
            queue: row.get("queue"),
            written_at: row.get("written_at"),
            message: StoryMessageRow::read(row),
            aggregate: kind.zip(row.get("aggregate_id")),
            read: row.get("read"),
            relayed_at: row.get("relayed_at"),
            landed_at: row.get("landed_at"),
        }
    }
}

impl DeferredRow {
    pub(super) fn read(row: &Row) -> Self {
        Self {
            message: StoryMessageRow::read(row),
            queue: row.get("queue"),
            state: row.get("state"),
            due_at: row.get("due_at"),
            attempts: row.get("attempts"),
            first_error: row.get("first_error"),
            last_error: row.get("last_error"),
            first_failed_at: row.get("first_failed_at"),
            written_at: row.get("written_at"),
        }
    }
}

impl DeadLetterRow {
    pub(super) fn read(row: &Row) -> Self {
        Self {
            letter: row.get("letter"),
            message: StoryMessageRow::read(row),
            queue: row.get("queue"),
            consumer: row.get("consumer"),
            status: row.get("status"),
            tag: row.get("tag"),
            reason: row.get("reason"),
            attempts: row.get("attempts"),
            first_error: row.get("first_error"),
            last_error: row.get("last_error"),
            first_failed_at: row.get("first_failed_at"),
            dead_at: row.get("dead_at"),
            acts: row.get("acts"),
            followers: row.get("followers"),
            attempt_log: row.get("attempt_log"),
        }
    }
}

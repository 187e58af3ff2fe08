//! The rows of a story, as the functions of `0006_story.sql` give them.

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
    /// 0: the publisher's own row.
    pub copy: i16,
    /// Where it was put; `None`: nowhere, or among those put aside.
    pub queue: Option<String>,
    /// When it was written: just before its commit.
    pub written_at: Timestamp,
    /// The message itself.
    pub message: Message,
    /// The aggregate's type and id.
    pub aggregate: Option<(String, String)>,
    /// The lane's last turn has left it behind: it was handled, put aside or put away.
    pub read: bool,
    /// When a relay handed its batch to the bus.
    pub relayed_at: Option<Timestamp>,
    /// When it came back from the bus.
    pub landed_at: Option<Timestamp>,
}

/// What every kind of row says of its message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The event's id.
    pub id: Uuid,
    /// `order.placed.v1`.
    pub event_type: String,
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// Whose it is.
    pub tenant: String,
    /// When it happened.
    pub occurred_at: Option<Timestamp>,
    /// Messages with equal keys are handled in order.
    pub ordering_key: Option<String>,
    /// The id of the message that caused it.
    pub causation_id: Option<String>,
}

/// A message put aside.
#[derive(Clone, Debug)]
pub struct AsideRow {
    /// The message itself.
    pub message: Message,
    /// The queue it waits for.
    pub queue: String,
    /// `delayed`, `retry`, `waiting`, `parked` or `leased`.
    pub state: String,
    /// When it wants attention; `None`: when its predecessor is through.
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
pub struct DeadRow {
    /// Its number.
    pub letter: i64,
    /// The message itself.
    pub message: Message,
    /// The queue it died in.
    pub queue: String,
    /// Who gave up on it.
    pub consumer: String,
    /// `dead`, `requeued` or `quarantined`.
    pub status: String,
    /// Why it is quarantined, in a word.
    pub tag: Option<String>,
    /// Why it died, in a word.
    pub reason: String,
    /// Attempts made.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it died.
    pub dead_at: Timestamp,
    /// What people did to it, in order.
    pub acts: Value,
}

impl Message {
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
            message: Message::read(row),
            aggregate: kind.zip(row.get("aggregate_id")),
            read: row.get("read"),
            relayed_at: row.get("relayed_at"),
            landed_at: row.get("landed_at"),
        }
    }
}

impl AsideRow {
    pub(super) fn read(row: &Row) -> Self {
        Self {
            message: Message::read(row),
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

impl DeadRow {
    pub(super) fn read(row: &Row) -> Self {
        Self {
            letter: row.get("letter"),
            message: Message::read(row),
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
        }
    }
}

//! The parts of a story.

use jiff::Timestamp;
use onceward::story::Contribution;
use serde::Serialize;
use uuid::Uuid;

/// A story as far as it is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// Its correlation id.
    pub correlation_id: String,
    /// Other correlation ids of the same story, as services link them.
    pub linked: Vec<String>,
    /// Stored responses to commands that contain the correlation id.
    #[serde(rename = "answers")]
    pub responses: Vec<StoryResponse>,
    /// The messages: each before those it caused, otherwise in the order in which they were written.
    pub messages: Vec<StoryMessage>,
    /// Partitions that were not searched, and other remarks.
    pub notes: Vec<String>,
}

/// The stored response to a command with an idempotency key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoryResponse {
    /// The command's tenant.
    pub tenant: String,
    /// The HTTP status.
    pub status: i16,
    /// When the command's transaction began.
    pub at: Timestamp,
    /// Until when a repeated command gets the same response.
    pub expires_at: Timestamp,
    /// Its `Location` header.
    pub location: Option<String>,
}

/// One message of a story.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoryMessage {
    /// The number of messages that led to it.
    pub depth: usize,
    /// The event's id.
    pub event_id: Uuid,
    /// `order.placed.v1`.
    pub event_type: String,
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// Its tenant.
    pub tenant: String,
    /// The message that caused it, even if that one was not found.
    pub causation_id: Option<String>,
    /// Messages with equal keys are handled in order.
    pub ordering_key: Option<String>,
    /// The aggregate's type and id.
    pub aggregate: Option<(String, String)>,
    /// When it happened.
    pub occurred_at: Option<Timestamp>,
    /// When it was written, just before its commit; `None`: the log no longer contains it.
    pub written_at: Option<Timestamp>,
    /// Its publications to the bus; a dead letter has a second one.
    pub publications: Vec<Publication>,
    /// The queues it reached.
    #[serde(rename = "places")]
    pub deliveries: Vec<QueueDelivery>,
    /// How it died, and what operators did about it.
    pub dead_letters: Vec<StoryDeadLetter>,
    /// The services' own knowledge about it.
    pub contributions: Vec<Contribution>,
}

/// One publication of a message to the bus.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// How far it got.
    pub state: PublicationState,
    /// When it was published, if that is known.
    pub at: Option<Timestamp>,
    /// How often the bus refused it.
    pub attempts: i32,
    /// When it is retried.
    pub next_try_at: Option<Timestamp>,
    /// Why the bus refused it.
    pub last_error: Option<String>,
    /// The refusals, oldest first, as far as they are still known.
    pub failed_attempts: Vec<FailedAttempt>,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// Which attempt it was, from 1.
    pub attempt: i32,
    /// When it failed.
    pub at: Timestamp,
    /// Why.
    pub error: String,
}

/// How far a publication to the bus got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PublicationState {
    /// PostgreSQL is the bus: the commit published it.
    ByCommit,
    /// A relay published it.
    ByRelay,
    /// No relay has taken it yet.
    Waiting,
    /// It is not due yet.
    Delayed,
    /// The bus refused it, and it will be retried.
    Refused,
    /// The bus refused it for good.
    Dead,
    /// No queue received it, or its delay has passed; the log does not record which.
    #[serde(rename = "noPlace")]
    NoQueue,
}

/// The delivery of a message to a queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDelivery {
    /// The queue.
    pub queue: String,
    /// Its state there.
    pub state: DeliveryState,
    /// When it came back from an external bus, if that is still known.
    pub landed_at: Option<Timestamp>,
    /// When it is due.
    pub due_at: Option<Timestamp>,
    /// Failed attempts so far.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The latest error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// The failed attempts, oldest first, as far as still known; also of a message handled since.
    pub failed_attempts: Vec<FailedAttempt>,
}

/// The state of a message in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryState {
    /// It was handled.
    Handled,
    /// No worker has read it yet.
    Waiting,
    /// A relay published it, and it has not come back from the bus.
    OnTheBus,
    /// It is not due yet.
    Delayed,
    /// An attempt failed, and another one will follow.
    Retrying,
    /// Its handler asked to be called again later.
    Snoozed,
    /// No running worker knows its type or version.
    NeedsNewerWorker,
    /// It waits behind another message of its key.
    Behind,
    /// A worker holds its lease.
    Leased,
    /// It was given up.
    Dead,
    /// It was given up and quarantined.
    Quarantined,
}

/// A dead letter of a message of the story.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoryDeadLetter {
    /// Its number.
    pub id: i64,
    /// The queue it died in.
    pub queue: String,
    /// The consumer that gave up on it.
    pub consumer: String,
    /// `dead`, `requeued` or `quarantined`.
    pub status: String,
    /// The tag of its quarantine.
    pub tag: Option<String>,
    /// Why it died, in a word.
    pub reason: String,
    /// Number of attempts.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it died.
    pub dead_at: Timestamp,
    /// Its failed attempts, oldest first: `attempt`, `at` and `error`.
    pub failed_attempts: serde_json::Value,
    /// What operators did to it: `act`, `actor`, `why`, `tag` and `at`, in order.
    pub acts: serde_json::Value,
    /// How many messages of its key wait behind it; `None` if it does not hold its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followers: Option<i64>,
}

//! What a story is made of.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// A story as far as it is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// Whose story it is.
    pub correlation_id: String,
    /// Stored answers to commands that name it.
    pub answers: Vec<Answer>,
    /// The messages: each before those it caused, and else in the order in which they were written.
    pub messages: Vec<Told>,
    /// What was not looked at, and other things to know.
    pub notes: Vec<String>,
}

/// The stored answer to a command with an idempotency key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Whose command it was.
    pub tenant: String,
    /// The HTTP status.
    pub status: i16,
    /// When the command's transaction began.
    pub at: Timestamp,
    /// Repetitions get the same answer until then.
    pub expires_at: Timestamp,
    /// Where it points.
    pub location: Option<String>,
}

/// One message of a story.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// How many messages led to it.
    pub depth: usize,
    /// The event's id.
    pub event_id: Uuid,
    /// `order.placed.v1`.
    pub event_type: String,
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// Whose it is.
    pub tenant: String,
    /// The message that caused it, also if that is not part of what was found.
    pub causation_id: Option<String>,
    /// Messages with equal keys are handled in order.
    pub ordering_key: Option<String>,
    /// The aggregate's type and id.
    pub aggregate: Option<(String, String)>,
    /// When it happened.
    pub occurred_at: Option<Timestamp>,
    /// When it was written, just before its commit; `None`: the log does not hold it any more.
    pub written_at: Option<Timestamp>,
    /// Its ways to the bus; a dead letter has a second one.
    pub publications: Vec<Publication>,
    /// The queues it got into.
    pub places: Vec<Place>,
    /// How it died, and what people did about it.
    pub dead_letters: Vec<Letter>,
}

/// A message's way to the bus.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// How far it got.
    pub state: Published,
    /// When it was published, if that is known.
    pub at: Option<Timestamp>,
    /// How often the bus refused it.
    pub attempts: i32,
    /// When it is offered again.
    pub next_try_at: Option<Timestamp>,
    /// Why the bus refused it.
    pub last_error: Option<String>,
}

/// How far a message got on its way to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Published {
    /// PostgreSQL is the bus: the commit published it.
    ByCommit,
    /// A relay handed it over.
    ByRelay,
    /// No relay has taken it yet.
    Waiting,
    /// It is not due yet.
    Delayed,
    /// The bus refused it, and it will be offered again.
    Refused,
    /// The bus refused it for good.
    Dead,
    /// No queue took it, or it has waited out its delay; the log does not tell which.
    NoPlace,
}

/// A message in a queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The queue.
    pub queue: String,
    /// What became of it there.
    pub state: PlaceState,
    /// When it came back from an external bus, if that is still known.
    pub landed_at: Option<Timestamp>,
    /// When it wants attention.
    pub due_at: Option<Timestamp>,
    /// Failed attempts so far.
    pub attempts: i32,
    /// The first error.
    pub first_error: Option<String>,
    /// The latest error.
    pub last_error: Option<String>,
    /// When the first attempt failed.
    pub first_failed_at: Option<Timestamp>,
}

/// What became of a message in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlaceState {
    /// It is through.
    Handled,
    /// Nobody has taken it yet.
    Waiting,
    /// A relay published it, and it has not come back from the bus.
    OnTheBus,
    /// It is not due yet.
    Delayed,
    /// An attempt failed, and another one will follow.
    Retrying,
    /// No running worker knows its type or version.
    NeedsNewerWorker,
    /// It stands behind another one of its key.
    Behind,
    /// A worker has it.
    Leased,
    /// It was given up.
    Dead,
    /// It was given up and taken out of the way.
    Quarantined,
}

/// A dead letter.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    /// Its number.
    pub id: i64,
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
    /// What people did to it: `act`, `actor`, `why`, `tag` and `at`, in order.
    pub acts: serde_json::Value,
}

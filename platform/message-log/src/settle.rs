//! Settles messages that were not simply handled: deferred, dead, or released.

use crate::{
    routes::DeclaredQueue,
    stored_message,
    turn_message::{MessageLocation, TurnMessage, UnreadableMessage},
};
use onceward_broker::{DeadReason, Delivery, Settlement};
use onceward_db::{DbError, Tx};
use serde_json::{Value, json};

// In `migrations/0009_settle.sql`:
pub(crate) const NOTE_ATTEMPTS: &str = "SELECT onceward.note_attempts($1)";
pub(crate) const DEFER: &str = "SELECT lane_id, seq, id FROM onceward.defer($1)";
pub(crate) const REDEFER: &str = "SELECT onceward.redefer($1)";
pub(crate) const BURY: &str = "SELECT onceward.bury($1)";
const SETTLE_DEFERRED: &str = "SELECT onceward.settle_deferred($1, $2)";

/// How many followers of a key become due when the message before them is settled.
const RELEASED_FOLLOWERS: i32 = 500;

/// The consumer, as dead letters name it.
#[derive(Clone)]
pub(crate) struct ConsumerIdentity {
    pub queue: String,
    pub consumer: String,
    pub dead_letter_exchange: Option<String>,
    pub ordered: bool,
    /// Whether dead letters hold their keys: followers wait until the letter is requeued or released.
    pub holds_keys: bool,
}

impl ConsumerIdentity {
    /// The identity of an ordered reader of `queue` whose dead letters hold nothing.
    pub(crate) fn of(consumer: &str, queue: &DeclaredQueue) -> Self {
        Self {
            queue: queue.definition.name.clone(),
            consumer: consumer.to_owned(),
            dead_letter_exchange: queue.definition.dead_letter.as_ref().map(|letter| letter.exchange.clone()),
            ordered: true,
            holds_keys: false,
        }
    }

    /// Returns whether a dead letter with this ordering key holds it.
    pub(crate) fn holds(&self, ordering_key: Option<&str>) -> bool {
        self.holds_keys && self.ordered && ordering_key.is_some()
    }
}

/// What a turn writes besides its lanes' positions; empty if every message was handled successfully.
#[derive(Default)]
pub(crate) struct SettlementWrites {
    pub defer: Vec<Value>,
    pub redefer: Vec<Value>,
    /// Failed attempts.
    pub attempts: Vec<Value>,
    /// The deferred messages that are settled for good.
    settled: Vec<i64>,
    dead: Vec<Value>,
}

impl SettlementWrites {
    pub(crate) fn add(
        &mut self,
        identity: &ConsumerIdentity,
        location: &MessageLocation,
        message: &impl TurnMessage,
        settlement: &Settlement,
    ) {
        if *settlement == Settlement::Done {
            return self.settled.extend(location.deferred.as_ref().map(|row| row.id));
        }
        match message.to_delivery() {
            Ok(delivery) => self.add_readable(identity, location, &delivery, settlement),
            Err(unreadable) => self.add_unreadable(identity, location, &unreadable),
        }
    }

    fn add_readable(
        &mut self,
        identity: &ConsumerIdentity,
        location: &MessageLocation,
        delivery: &Delivery,
        settlement: &Settlement,
    ) {
        let attempts = i32::try_from(delivery.attempt).unwrap_or(i32::MAX);
        self.attempts.extend(failed_attempt(&identity.queue, delivery, settlement));
        match settlement {
            Settlement::Done => {}
            Settlement::Retry { after, error } => {
                self.defer(
                    location,
                    delivery,
                    json!({"state": "retry", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts, "last_error": storable(error)}),
                );
            }
            Settlement::Wait { after, reason } => {
                self.defer(
                    location,
                    delivery,
                    json!({"state": "waiting", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts - 1, "last_error": storable(reason)}),
                );
            }
            Settlement::Unknown { after, reason } => {
                self.defer(
                    location,
                    delivery,
                    json!({"state": "unknown", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts - 1, "last_error": storable(reason)}),
                );
            }
            Settlement::Behind => {
                self.defer(
                    location,
                    delivery,
                    json!({"state": "parked", "due_in_ms": null, "blocks": true,
                    "attempts": attempts - 1, "last_error": null}),
                );
            }
            Settlement::Dead { reason, error } => {
                let mut letter = dead_letter(identity, delivery, *reason, error);
                location.write_to(&mut letter);
                self.dead.push(letter);
                match identity.holds(delivery.ordering_key.as_deref()) {
                    true => self.defer(location, delivery, held(attempts, &storable(error))),
                    false => self.settled.extend(location.deferred.as_ref().map(|row| row.id)),
                }
            }
        }
    }

    fn defer(&mut self, location: &MessageLocation, delivery: &Delivery, mut row: Value) {
        row["lease"] = location.deferred.as_ref().map_or(0, |row| row.lease).into();
        match &location.deferred {
            Some(deferred) => {
                row["id"] = deferred.id.into();
                self.redefer.push(row);
            }
            None => self.defer.push(new_deferred(location, delivery, row)),
        }
    }

    pub(crate) fn add_unreadable(
        &mut self,
        identity: &ConsumerIdentity,
        location: &MessageLocation,
        unreadable: &UnreadableMessage,
    ) {
        let raw = &unreadable.raw;
        let mut letter = json!({
            "event_id": raw["id"], "tenant_id": raw["tenant_id"], "queue": identity.queue, "consumer": identity.consumer,
            "dead_letter_exchange": identity.dead_letter_exchange, "event_type": raw["event_type"], "version": raw["version"],
            "ordering_key": raw["ordering_key"], "correlation_id": raw["correlation_id"],
            "reason": DeadReason::Malformed.as_str(), "attempts": 0, "last_error": storable(&unreadable.error), "message": raw,
        });
        location.write_to(&mut letter);
        match (identity.holds(unreadable.ordering_key()), &location.deferred) {
            (false, deferred) => self.settled.extend(deferred.as_ref().map(|row| row.id)),
            (true, Some(deferred)) => {
                let mut row = held(0, &storable(&unreadable.error));
                row["id"] = deferred.id.into();
                row["lease"] = deferred.lease.into();
                self.redefer.push(row);
            }
            (true, None) => {
                let mut row = held(0, &storable(&unreadable.error));
                location.write_to(&mut row);
                row["lease"] = 0.into();
                row["first_error"] = row["last_error"].clone();
                row["ordering_key"] = raw["ordering_key"].clone();
                row["created_at"] = json!(jiff::Timestamp::now());
                row["message"] = raw.clone();
                self.defer.push(row);
            }
        }
        self.dead.push(letter);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dead.is_empty() && !self.change_deferred()
    }

    /// Returns whether the deferred messages change, so that others may be due now.
    pub(crate) fn change_deferred(&self) -> bool {
        !(self.defer.is_empty() && self.redefer.is_empty() && self.settled.is_empty())
    }

    /// Runs the statements in this order, because a failed message must be visibly waiting before its followers are
    /// considered.
    pub(crate) async fn run(&self, tx: &Tx) -> Result<(), DbError> {
        // Before the dead letters, which get a copy.
        if !self.attempts.is_empty() {
            tx.query(NOTE_ATTEMPTS, &[&Value::from(self.attempts.clone())]).await?;
        }
        if !self.defer.is_empty() {
            tx.query(DEFER, &[&Value::from(self.defer.clone())]).await?;
        }
        if !self.redefer.is_empty() {
            tx.query(REDEFER, &[&Value::from(self.redefer.clone())]).await?;
        }
        if !self.dead.is_empty() {
            tx.query(BURY, &[&Value::from(self.dead.clone())]).await?;
        }
        if !self.settled.is_empty() {
            tx.query(SETTLE_DEFERRED, &[&self.settled, &RELEASED_FOLLOWERS]).await?;
        }
        Ok(())
    }
}

/// Returns the columns of the row with which a dead letter holds its key. It is never due. `onceward.bury` adds the letter's
/// number, so it must run after this row was written.
pub(crate) fn held(attempts: i32, error: &str) -> Value {
    json!({"state": "held", "due_in_ms": null, "blocks": true, "attempts": attempts, "last_error": error})
}

/// Builds a new row for `onceward.defer`: the common columns and those of `row`.
pub(crate) fn new_deferred(location: &MessageLocation, delivery: &Delivery, mut row: Value) -> Value {
    if row["first_error"].is_null() {
        row["first_error"] = row["last_error"].clone();
    }
    if !row["last_error"].is_null() {
        row["first_failed_at"] = json!(delivery.first_failed_at.unwrap_or_else(jiff::Timestamp::now));
    }
    location.write_to(&mut row);
    row["ordering_key"] = json!(delivery.ordering_key);
    row["created_at"] = json!(delivery.published_at);
    row["message"] = stored_message::to_json(delivery);
    row
}

/// Returns the failed attempt that `settlement` describes, if any: a message that never reached its handler was not
/// tried.
pub(crate) fn failed_attempt(queue: &str, delivery: &Delivery, settlement: &Settlement) -> Option<Value> {
    use DeadReason::{AttemptsExhausted, RefusedByBus, Rejected};
    let error = match settlement {
        Settlement::Retry { error, .. }
        | Settlement::Dead { reason: Rejected | AttemptsExhausted | RefusedByBus, error } => error,
        _ => return None,
    };
    Some(attempt(queue, delivery, i32::try_from(delivery.attempt).unwrap_or(i32::MAX), error))
}

/// Builds a row for `onceward.note_attempts`.
pub(crate) fn attempt(queue: &str, delivery: &Delivery, attempt: i32, error: &str) -> Value {
    json!({"event_id": delivery.envelope.event_id, "queue": queue, "tenant_id": delivery.queue_tenant, "attempt": attempt,
           "error": storable(error)})
}

/// Longer error texts are truncated.
const ERROR_CHARS: usize = 4_000;

/// Returns an error text that the database can store: without NUL, and of limited length.
pub(crate) fn storable(error: &str) -> String {
    error.chars().take(ERROR_CHARS).map(|one| if one == '\0' { char::REPLACEMENT_CHARACTER } else { one }).collect()
}

pub(crate) fn dead_letter(identity: &ConsumerIdentity, delivery: &Delivery, reason: DeadReason, error: &str) -> Value {
    let envelope = &delivery.envelope;
    let error = storable(error);
    json!({
        "event_id": envelope.event_id, "tenant_id": delivery.queue_tenant, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": envelope.event_type.name(), "version": envelope.event_type.version(),
        "ordering_key": delivery.ordering_key, "correlation_id": envelope.correlation_id, "reason": reason.as_str(),
        "attempts": delivery.attempt, "first_error": delivery.first_error.as_deref().unwrap_or(&error), "last_error": error,
        "first_failed_at": delivery.first_failed_at, "message": stored_message::to_json(delivery),
    })
}

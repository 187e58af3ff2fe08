//! What becomes of messages that were not simply handled: put aside, put away, or let go.

use crate::{
    routes::DeclaredQueue,
    rows::{Message, Place, Unreadable},
    store,
    stored::stored,
};
use onceward_db::{DbError, Tx};
use onceward_transport::{DeadReason, Delivery, Settlement};
use serde_json::{Value, json};

/// How many followers of a key become due when the message before them is through.
const RELEASED_FOLLOWERS: i32 = 500;

/// Who handles, for dead letters.
#[derive(Clone)]
pub(crate) struct Identity {
    pub queue: String,
    pub consumer: String,
    pub dead_letter_exchange: Option<String>,
    pub ordered: bool,
}

impl Identity {
    /// An ordered reader of `queue`.
    pub(crate) fn of(consumer: &str, queue: &DeclaredQueue) -> Self {
        Self {
            queue: queue.definition.name.clone(),
            consumer: consumer.to_owned(),
            dead_letter_exchange: queue.definition.dead_letter.as_ref().map(|letter| letter.exchange.clone()),
            ordered: true,
        }
    }
}

/// What a turn writes beside its lanes' places; nothing at all when all went well.
#[derive(Default)]
pub(crate) struct Writes {
    pub defer: Vec<Value>,
    pub redefer: Vec<Value>,
    through: Vec<i64>,
    bury: Vec<Value>,
}

impl Writes {
    pub(crate) fn add(&mut self, identity: &Identity, place: &Place, message: &impl Message, settlement: &Settlement) {
        if *settlement == Settlement::Done {
            return self.through.extend(place.deferred.as_ref().map(|row| row.id));
        }
        match message.to_delivery() {
            Ok(delivery) => self.write_down(identity, place, &delivery, settlement),
            Err(unreadable) => self.bury_unreadable(identity, place, &unreadable),
        }
    }

    fn write_down(&mut self, identity: &Identity, place: &Place, delivery: &Delivery, settlement: &Settlement) {
        let attempts = i32::try_from(delivery.attempt).unwrap_or(i32::MAX);
        match settlement {
            Settlement::Done => {}
            Settlement::Retry { after, error } => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "retry", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts, "last_error": error}),
                );
            }
            Settlement::Wait { after, reason } => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "waiting", "due_in_ms": after.as_millis() as u64,
                    "blocks": identity.ordered, "attempts": attempts - 1, "last_error": reason}),
                );
            }
            Settlement::Behind => {
                self.aside(
                    place,
                    delivery,
                    json!({"state": "parked", "due_in_ms": null, "blocks": true,
                    "attempts": attempts - 1, "last_error": null}),
                );
            }
            Settlement::Dead { reason, error } => {
                let mut letter = dead_letter(identity, delivery, *reason, error);
                place.write_to(&mut letter);
                self.bury.push(letter);
                self.through.extend(place.deferred.as_ref().map(|row| row.id));
            }
        }
    }

    fn aside(&mut self, place: &Place, delivery: &Delivery, mut row: Value) {
        row["lease"] = place.deferred.as_ref().map_or(0, |row| row.lease).into();
        match &place.deferred {
            Some(deferred) => {
                row["id"] = deferred.id.into();
                self.redefer.push(row);
            }
            None => self.defer.push(new_deferred(place, delivery, row)),
        }
    }

    pub(crate) fn bury_unreadable(&mut self, identity: &Identity, place: &Place, unreadable: &Unreadable) {
        let raw = &unreadable.raw;
        let mut letter = json!({
            "event_id": raw["id"], "tenant_id": raw["tenant_id"], "queue": identity.queue, "consumer": identity.consumer,
            "dead_letter_exchange": identity.dead_letter_exchange, "event_type": raw["event_type"], "version": raw["version"],
            "ordering_key": raw["ordering_key"], "correlation_id": raw["correlation_id"],
            "reason": DeadReason::Malformed.as_str(), "attempts": 0, "last_error": unreadable.error, "message": raw,
        });
        place.write_to(&mut letter);
        self.bury.push(letter);
        self.through.extend(place.deferred.as_ref().map(|row| row.id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bury.is_empty() && !self.puts_aside()
    }

    pub(crate) fn puts_aside(&self) -> bool {
        !(self.defer.is_empty() && self.redefer.is_empty() && self.through.is_empty())
    }

    /// In this order: whoever failed must be seen to wait before its followers are considered.
    pub(crate) async fn run(&self, tx: &Tx) -> Result<(), DbError> {
        if !self.defer.is_empty() {
            tx.query(store::DEFER, &[&Value::from(self.defer.clone())]).await?;
        }
        if !self.redefer.is_empty() {
            tx.query(store::REDEFER, &[&Value::from(self.redefer.clone())]).await?;
        }
        if !self.bury.is_empty() {
            tx.query(store::BURY, &[&Value::from(self.bury.clone())]).await?;
        }
        if !self.through.is_empty() {
            tx.query(store::SETTLE_DEFERRED, &[&self.through, &RELEASED_FOLLOWERS]).await?;
        }
        Ok(())
    }
}

/// A new row for `onceward.defer`: the common columns and those of `row`.
pub(crate) fn new_deferred(place: &Place, delivery: &Delivery, mut row: Value) -> Value {
    if row["first_error"].is_null() {
        row["first_error"] = row["last_error"].clone();
    }
    if !row["last_error"].is_null() {
        row["first_failed_at"] = json!(delivery.first_failed_at.unwrap_or_else(jiff::Timestamp::now));
    }
    place.write_to(&mut row);
    row["ordering_key"] = json!(delivery.ordering_key);
    row["created_at"] = json!(delivery.published_at);
    row["message"] = stored(delivery);
    row
}

pub(crate) fn dead_letter(identity: &Identity, delivery: &Delivery, reason: DeadReason, error: &str) -> Value {
    let envelope = &delivery.envelope;
    json!({
        "event_id": envelope.event_id, "tenant_id": delivery.queue_tenant, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": envelope.event_type.name(), "version": envelope.event_type.version(),
        "ordering_key": delivery.ordering_key, "correlation_id": envelope.correlation_id, "reason": reason.as_str(),
        "attempts": delivery.attempt, "first_error": delivery.first_error.as_deref().unwrap_or(error), "last_error": error,
        "first_failed_at": delivery.first_failed_at, "message": stored(delivery),
    })
}

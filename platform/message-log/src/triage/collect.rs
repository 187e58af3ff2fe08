//! Collects the messages that an external bus moved to its own dead-letter queues.

use super::{Operator, audit};
use crate::{
    BusError, MessageLog, hash::KeyHash, land, routes::DeclaredQueue, settle::ConsumerIdentity, stored_message,
};
use onceward_broker::{Arrival, Delivery};
use onceward_db::{Scope, Tx};
use onceward_envelope::nul;
use serde_json::{Value, json};

// In `migrations/0018_quarantine.sql`:
const COLLECT: &str = "SELECT onceward.collect($1, $2, $3, $4, $5)";

/// A message from a dead-letter queue of the bus.
#[derive(Clone, Debug)]
pub struct BusDeadLetter {
    /// The message as it arrived.
    pub arrival: Arrival,
    /// The queue in which it died.
    pub queue: String,
    /// The consumer of that queue.
    pub consumer: String,
    /// Why it died, as one word.
    pub reason: String,
    /// The dead-letter queue.
    pub found_in: String,
}

/// The outcome for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectOutcome {
    /// It is now this dead letter.
    Letter(i64),
    /// It was already recorded, in one way or another.
    Known,
}

/// Collects messages, all in one commit; a rehearsal rolls it back. Repeating the call after an error is harmless.
pub async fn collect(
    log: &MessageLog,
    messages: &[BusDeadLetter],
    operator: &Operator,
    rehearse: bool,
) -> Result<Vec<CollectOutcome>, BusError> {
    let mut letters = Vec::with_capacity(messages.len());
    for message in messages {
        letters.push(letter(log, message).await?);
    }
    let mut tx = log.db().begin(Scope::platform("triage")).await?;
    let mut collected = Vec::with_capacity(messages.len());
    for (message, (key, letter)) in messages.iter().zip(&letters) {
        collected.push(write(&mut tx, message, key, letter, operator).await?);
    }
    if rehearse {
        tx.rollback().await?
    } else {
        tx.commit().await?
    }
    Ok(collected)
}

async fn write(
    tx: &mut Tx,
    message: &BusDeadLetter,
    key: &str,
    letter: &Value,
    operator: &Operator,
) -> Result<CollectOutcome, BusError> {
    let detail = json!({"foundIn": message.found_in, "redeliveries": message.arrival.redeliveries});
    let row = tx.query_one(COLLECT, &[letter, &key, &operator.name, &operator.why, &detail]).await?;
    let Some(id) = row.get::<_, Option<i64>>(0) else {
        return Ok(CollectOutcome::Known);
    };
    let details = [("queue", json!(message.queue)), ("foundIn", json!(message.found_in))];
    audit::record_letter(tx, operator, "dead_letter_collected", id, letter["tenant_id"].as_str(), details)?;
    Ok(CollectOutcome::Letter(id))
}

/// Returns the dead letter, and the key that identifies it when the message arrives again.
async fn letter(log: &MessageLog, message: &BusDeadLetter) -> Result<(String, Value), BusError> {
    let declared = match log.router().queue(&message.queue).await {
        Ok(queue) => Some(queue),
        Err(BusError::UnknownQueue(_)) => None,
        Err(error) => return Err(error),
    };
    let identity = ConsumerIdentity {
        queue: message.queue.clone(),
        consumer: message.consumer.clone(),
        dead_letter_exchange: declared
            .as_ref()
            .and_then(|queue| queue.definition.dead_letter.as_ref())
            .map(|letter| letter.exchange.clone()),
        ordered: true,
        holds_keys: false,
    };
    let delivery = match message.arrival.unpack() {
        Ok(delivery) => delivery,
        Err(error) => return Ok(land::malformed_letter(&identity, &message.arrival, &error.to_string())),
    };
    let letter = readable_letter(log, message, &identity, declared, &delivery).await?;
    if nul::in_value(&letter) {
        return Ok(land::malformed_letter(&identity, &message.arrival, "the database cannot store it"));
    }
    Ok((delivery.envelope.idempotency_key.to_string(), letter))
}

async fn readable_letter(
    log: &MessageLog,
    message: &BusDeadLetter,
    identity: &ConsumerIdentity,
    declared: Option<DeclaredQueue>,
    delivery: &Delivery,
) -> Result<Value, BusError> {
    let envelope = &delivery.envelope;
    let lane = match declared {
        Some(queue) => {
            let hash = KeyHash::of_optional(envelope.tenant_id.as_str(), delivery.ordering_key.as_deref());
            Some(log.router().lane(log.wake_hub(), &queue, &envelope.tenant_id, hash, delivery.priority).await?)
        }
        None => None,
    };
    let error = format!("the bus moved it to {}", message.found_in);
    Ok(json!({
        "event_id": envelope.event_id, "tenant_id": envelope.tenant_id, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": envelope.event_type.name(), "version": envelope.event_type.version(),
        "ordering_key": delivery.ordering_key, "correlation_id": envelope.correlation_id, "reason": message.reason,
        "attempts": 0, "first_error": error, "last_error": error, "message": stored_message::to_json(delivery), "lane_id": lane,
    }))
}

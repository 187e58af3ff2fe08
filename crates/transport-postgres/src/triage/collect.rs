//! Taking in what an external bus has put away by itself.

use super::Operator;
use crate::{PostgresTransport, hash::KeyHash, land, routes::DeclaredQueue, settle::Identity, store, stored::stored};
use onceward_db::{Scope, Tx};
use onceward_transport::{Arrival, Delivery, TransportError};
use serde_json::{Value, json};

/// A message from a dead-letter queue of the bus.
#[derive(Clone, Debug)]
pub struct PutAway {
    /// As it came.
    pub arrival: Arrival,
    /// The queue in which it died,
    pub queue: String,
    /// and who reads that.
    pub consumer: String,
    /// Why it died, in a word.
    pub reason: String,
    /// The dead-letter queue.
    pub found_in: String,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// It is this letter now.
    Letter(i64),
    /// It had come home before, one way or another.
    Known,
}

/// Takes messages in, all in one commit; a rehearsal undoes it. Doing it again after an error is harmless.
pub async fn collect(
    bus: &PostgresTransport,
    messages: &[PutAway],
    operator: &Operator,
    rehearse: bool,
) -> Result<Vec<Collected>, TransportError> {
    let mut letters = Vec::with_capacity(messages.len());
    for message in messages {
        letters.push(letter(bus, message).await?);
    }
    let mut tx = bus.db().begin(Scope::platform("triage")).await?;
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
    message: &PutAway,
    key: &str,
    letter: &Value,
    operator: &Operator,
) -> Result<Collected, TransportError> {
    let detail = json!({"foundIn": message.found_in, "redeliveries": message.arrival.redeliveries});
    let row = tx.query_one(store::COLLECT, &[letter, &key, &operator.name, &operator.why, &detail]).await?;
    Ok(row.get::<_, Option<i64>>(0).map_or(Collected::Known, Collected::Letter))
}

/// The letter, and the key by which it is known when it comes again.
async fn letter(bus: &PostgresTransport, message: &PutAway) -> Result<(String, Value), TransportError> {
    let declared = match bus.routes().queue(&message.queue).await {
        Ok(queue) => Some(queue),
        Err(TransportError::UnknownQueue(_)) => None,
        Err(error) => return Err(error),
    };
    let identity = Identity {
        queue: message.queue.clone(),
        consumer: message.consumer.clone(),
        dead_letter_exchange: declared
            .as_ref()
            .and_then(|queue| queue.definition.dead_letter.as_ref())
            .map(|letter| letter.exchange.clone()),
        ordered: true,
    };
    let delivery = match message.arrival.unpack() {
        Ok(delivery) => delivery,
        Err(error) => return Ok(land::malformed_letter(&identity, &message.arrival, &error.to_string())),
    };
    let letter = readable_letter(bus, message, &identity, declared, &delivery).await?;
    if holds_nul(&letter) {
        return Ok(land::malformed_letter(&identity, &message.arrival, "the database cannot hold it"));
    }
    Ok((delivery.envelope.idempotency_key.to_string(), letter))
}

async fn readable_letter(
    bus: &PostgresTransport,
    message: &PutAway,
    identity: &Identity,
    declared: Option<DeclaredQueue>,
    delivery: &Delivery,
) -> Result<Value, TransportError> {
    let envelope = &delivery.envelope;
    let lane = match declared {
        Some(queue) => {
            let hash = KeyHash::of_optional(envelope.tenant_id.as_str(), delivery.ordering_key.as_deref());
            Some(bus.routes().lane(bus.wakes(), &queue, &envelope.tenant_id, hash, delivery.priority).await?)
        }
        None => None,
    };
    let said = format!("the bus put it into {} by itself", message.found_in);
    Ok(json!({
        "event_id": envelope.event_id, "tenant_id": envelope.tenant_id, "queue": identity.queue,
        "consumer": identity.consumer, "dead_letter_exchange": identity.dead_letter_exchange,
        "event_type": envelope.event_type.name(), "version": envelope.event_type.version(),
        "ordering_key": delivery.ordering_key, "correlation_id": envelope.correlation_id, "reason": message.reason,
        "attempts": 0, "first_error": said, "last_error": said, "message": stored(delivery), "lane_id": lane,
    }))
}

/// PostgreSQL holds no NUL in its texts.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

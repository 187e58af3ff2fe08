//! The outbox: publishing is a write in the caller's transaction, and there is no other way.

use crate::Event;
use onceward_db::Tx;
use onceward_envelope::{
    Clock, CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, EventType, IdempotencyKey, Ids, SchemaError,
    SchemaRegistry, SystemClock, SystemIds, TenantId,
};
use onceward_topology::{Queue, Topic};
use onceward_transport::{DeadReason, Delivery, TransportError};
use onceward_transport_postgres::{
    PostgresTransport,
    append::{self, Outgoing},
};
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// What publishing needs beside the transaction. Attached to the database handle at start.
pub struct Publisher {
    bus: PostgresTransport,
    schemas: SchemaRegistry,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Publisher {
    /// A publisher by the machine's clock.
    pub fn new(bus: PostgresTransport, schemas: SchemaRegistry) -> Self {
        Self { bus, schemas, clock: Arc::new(SystemClock), ids: Arc::new(SystemIds) }
    }

    /// The same with another clock and other ids, for tests.
    pub fn with_doors(mut self, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        (self.clock, self.ids) = (clock, ids);
        self
    }
}

/// Why a message was not accepted. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The payload breaks its contract, or there is none.
    #[error(transparent)]
    Contract(#[from] SchemaError),
    /// Something about the message is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The bus cannot take it.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The transaction comes from a database handle that nothing can publish through.
    #[error("this transaction cannot publish: begin it on the service's own database handle")]
    NoPublisher,
}

impl PublishError {
    /// Trying again later may work.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transport(error) if error.is_transient())
    }
}

/// A message in its general form, for payloads that have no Rust type.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// `order.placed.v1`.
    pub event_type: String,
    /// `<exchange>:<routing key>`.
    pub topic: String,
    /// The fact itself.
    pub payload: Value,
    /// Messages with equal keys are handled in the order of their commits.
    pub ordering_key: Option<String>,
    /// The same key is published once.
    pub idempotency_key: Option<String>,
    /// The aggregate's type and id.
    pub aggregate: Option<(String, String)>,
    /// Further top-level attributes of the envelope.
    pub extensions: Map<String, Value>,
    /// Not to be handled before this time has passed.
    pub delay: Option<Duration>,
    /// 0 is the lowest; queues without priorities ignore it.
    pub priority: u8,
    /// The story it belongs to, if not that of the transaction.
    pub correlation_id: Option<String>,
}

impl NewMessage {
    /// A message without any of the options.
    pub fn new(event_type: impl Into<String>, topic: impl Into<String>, payload: Value) -> Self {
        Self {
            event_type: event_type.into(),
            topic: topic.into(),
            payload,
            ordering_key: None,
            idempotency_key: None,
            aggregate: None,
            extensions: Map::new(),
            delay: None,
            priority: 0,
            correlation_id: None,
        }
    }

    /// The message form of an event.
    pub fn from_event<E: Event>(event: &E, tenant: &TenantId) -> Result<Self, PublishError> {
        let payload = serde_json::to_value(event).map_err(|error| PublishError::Invalid(error.to_string()))?;
        Ok(Self {
            ordering_key: event.ordering_key(),
            idempotency_key: event.idempotency_key(),
            aggregate: event.aggregate(),
            correlation_id: event.correlation_id(),
            ..Self::new(E::TYPE, event.topic(tenant), payload)
        })
    }

    /// Sets the ordering key.
    pub fn ordered_by(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Sets the idempotency key.
    pub fn once_per(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Makes it part of another story than the transaction's. The envelope still names what caused it, goes on with the
    /// same trace, and names the story it came from in [`PARENT_CORRELATION`].
    pub fn correlated_by(mut self, correlation_id: impl Into<String>) -> Self {
        self.correlation_id = Some(correlation_id.into());
        self
    }

    /// Sets the delay.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets the priority.
    pub fn with_priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }
}

/// Publishes an event with the commit of `tx`. Gives the event's id.
pub async fn publish<E: Event>(tx: &mut Tx, event: &E) -> Result<Uuid, PublishError> {
    let tenant = tx.tenant().map_err(TransportError::from)?.clone();
    send(tx, NewMessage::from_event(event, &tenant)?).await
}

/// Publishes many events; they are written by one statement.
pub async fn publish_all<E: Event>(tx: &mut Tx, events: &[E]) -> Result<Vec<Uuid>, PublishError> {
    let mut ids = Vec::with_capacity(events.len());
    for event in events {
        ids.push(publish(tx, event).await?);
    }
    Ok(ids)
}

/// Publishes a message in its general form with the commit of `tx`.
pub async fn send(tx: &mut Tx, message: NewMessage) -> Result<Uuid, PublishError> {
    let publisher: Arc<Publisher> = tx.context().ok_or(PublishError::NoPublisher)?;
    let outgoing = publisher.check(tx, message)?;
    let id = outgoing.envelope.event_id;
    append::append(&publisher.bus, tx, outgoing).await?;
    Ok(id)
}

/// The extension attribute of a message that began a story of its own: the correlation id of the story it came from.
pub const PARENT_CORRELATION: &str = "parentCorrelationId";

/// The extension attribute that tells why a copy of a message lies with the dead letters.
pub(crate) const DEAD_LETTER: &str = "deadLetter";

/// On an external bus, a copy of a dead letter goes to where its queue sends them, for those who look there. The letter
/// itself is in the database.
pub(crate) async fn copy_dead_letter(
    tx: &mut Tx,
    delivery: &Delivery,
    queue: &Queue,
    reason: DeadReason,
) -> Result<(), TransportError> {
    let (Some(target), Some(publisher)) = (&queue.dead_letter, tx.context::<Publisher>()) else {
        return Ok(());
    };
    if !publisher.bus.routes().table().await?.relayed() {
        return Ok(());
    }
    let own_key = delivery.topic.split_once(':').map_or("", |(_, key)| key);
    let mut envelope = delivery.envelope.clone();
    let death = serde_json::json!({"reason": reason.as_str(), "queue": queue.name, "attempts": delivery.attempt});
    envelope.extensions.insert(DEAD_LETTER.to_owned(), death);
    // It is a message of its own: the key belongs to the one that died, which may die again.
    envelope.idempotency_key = IdempotencyKey::new(format!("dead-letter:{}", publisher.ids.event_id()))
        .map_err(|error| TransportError::Malformed(error.to_string()))?;
    let copy = Outgoing {
        envelope,
        topic: Topic::new(&target.exchange, target.routing_key.as_deref().unwrap_or(own_key)),
        ordering_key: delivery.ordering_key.clone(),
        deduplicate: false,
        aggregate: None,
        delay: None,
        priority: delivery.priority,
    };
    append::append(&publisher.bus, tx, copy).await
}

impl Publisher {
    fn check(&self, tx: &Tx, message: NewMessage) -> Result<Outgoing, PublishError> {
        let invalid = |error: &dyn std::fmt::Display| PublishError::Invalid(error.to_string());
        let tenant = tx.tenant().map_err(TransportError::from)?.clone();
        let event_type: EventType = message.event_type.parse().map_err(|error| invalid(&error))?;
        let topic: Topic = message.topic.parse().map_err(|error| invalid(&error))?;
        check_routing_tenant(&topic, &tenant)?;
        if message.ordering_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 255) {
            return Err(PublishError::Invalid("an ordering key has 1 to 255 bytes".into()));
        }
        self.schemas.validate(event_type.schema_id(), &message.payload)?;
        let event_id = self.ids.event_id();
        let deduplicate = message.idempotency_key.is_some();
        let idempotency_key = match message.idempotency_key {
            Some(key) => IdempotencyKey::new(key).map_err(|error| invalid(&error))?,
            None => IdempotencyKey::from(event_id),
        };
        let scope = tx.scope();
        let (correlation_id, extensions) = match message.correlation_id {
            Some(own) if own != scope.correlation_id.as_str() => {
                let mut extensions = message.extensions;
                extensions.insert(PARENT_CORRELATION.to_owned(), scope.correlation_id.as_str().into());
                (CorrelationId::new(own).map_err(|error| invalid(&error))?, extensions)
            }
            _ => (scope.correlation_id.clone(), message.extensions),
        };
        let envelope = Envelope {
            event_id,
            event_type,
            schema_version: ENVELOPE_SCHEMA_VERSION,
            tenant_id: tenant,
            correlation_id,
            causation_id: scope.causation_id.clone(),
            idempotency_key,
            actor: scope.actor.user_id.is_some().then(|| scope.actor.clone()),
            occurred_at: self.clock.now(),
            extensions,
            payload: message.payload.into(),
            trace: scope.trace.clone(),
        };
        Ok(Outgoing {
            envelope,
            topic,
            ordering_key: message.ordering_key,
            deduplicate,
            aggregate: message.aggregate,
            delay: message.delay,
            priority: message.priority,
        })
    }
}

/// `tenant.<id>.…` in a routing key must be the tenant that publishes.
fn check_routing_tenant(topic: &Topic, tenant: &TenantId) -> Result<(), PublishError> {
    match routing_tenant(&topic.routing_key) {
        Some(named) if named != tenant.as_str() => Err(PublishError::Invalid(format!(
            "the routing key names tenant \"{named}\", but the transaction belongs to \"{tenant}\""
        ))),
        _ => Ok(()),
    }
}

/// The tenant that a routing key of the form `tenant.<id>.…` names.
pub(crate) fn routing_tenant(routing_key: &str) -> Option<&str> {
    routing_key.strip_prefix("tenant.")?.split('.').next()
}

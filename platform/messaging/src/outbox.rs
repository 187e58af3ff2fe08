//! The outbox: publishing is a write in the caller's transaction. It is the only way to publish.

use crate::{Event, measure::PublishCounter};
use jiff::Timestamp;
use onceward_broker::{DeadReason, Delivery};
use onceward_db::{Scope, Tx};
use onceward_envelope::{
    Actor, Clock, CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, EventType, IdempotencyKey, SchemaError,
    SchemaRegistry, SystemClock, TenantId,
};
use onceward_message_log::{
    BusError, MessageLog,
    append::{self, OutgoingMessage},
};
use onceward_topology::{Queue, Topic};
use serde_json::{Map, Value};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The dependencies of publishing besides the transaction. Attached to the database handle at startup.
pub struct Publisher {
    log: MessageLog,
    schemas: SchemaRegistry,
    counters: Vec<PublishCounter>,
}

impl Publisher {
    /// Creates a publisher for messages whose contracts are in `schemas`.
    pub fn new(log: MessageLog, schemas: SchemaRegistry) -> Self {
        Self { log, schemas, counters: Vec::new() }
    }

    /// Also updates these counters at commit, for PostgreSQL as the bus, where no relay counts.
    pub fn counting(mut self, counters: Vec<PublishCounter>) -> Self {
        self.counters = counters;
        self
    }
}

/// The reason why a message was not accepted. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The payload violates its contract, or no contract exists.
    #[error(transparent)]
    Contract(#[from] SchemaError),
    /// The message is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The bus cannot accept it.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The transaction comes from a database handle without a publisher.
    #[error("this transaction cannot publish: begin it on the service's own database handle")]
    NoPublisher,
}

impl PublishError {
    /// Returns whether a later attempt may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Bus(error) if error.is_transient())
    }
}

/// A message in its general form, for payloads that have no Rust type.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The type with its version: `order.placed.v1`.
    pub event_type: String,
    /// The topic, `<exchange>:<routing key>`.
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
    /// How long to wait before it may be handled.
    pub delay: Option<Duration>,
    /// 0 is the lowest; queues without priorities ignore it.
    pub priority: u8,
    /// The story it belongs to, if not that of the transaction.
    pub correlation_id: Option<String>,
}

impl NewMessage {
    /// Creates a message without any options.
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

    /// Sets the time after which handling it is of no use. It travels in the envelope: a message whose deadline has passed
    /// becomes a dead letter instead of being handled, and calls to destinations take no longer than it allows.
    pub fn deadline(mut self, deadline: Timestamp) -> Self {
        self.extensions.insert(DEADLINE.to_owned(), deadline.to_string().into());
        self
    }

    /// Converts an event to a message.
    pub fn from_event<E: Event>(event: &E, tenant: &TenantId) -> Result<Self, PublishError> {
        let payload = serde_json::to_value(event).map_err(|error| PublishError::Invalid(error.to_string()))?;
        Ok(Self {
            ordering_key: event.ordering_key(),
            idempotency_key: event.idempotency_key(),
            aggregate: event.aggregate(),
            correlation_id: event.correlation_id(),
            ..Self::new(E::TYPE, event.topic(tenant).to_string(), payload)
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

    /// Assigns it to another story than the transaction's. The envelope still names its cause, continues the same
    /// trace, and names the originating story in [`PARENT_CORRELATION`].
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

/// Publishes an event with the commit of `tx`. Returns the event's id.
pub async fn publish<E: Event>(tx: &mut Tx, event: &E) -> Result<Uuid, PublishError> {
    let tenant = tx.tenant().map_err(BusError::from)?.clone();
    send(tx, NewMessage::from_event(event, &tenant)?).await
}

/// Publishes an event under `scope` instead of the transaction's own: with its actor and trace, in its story, and caused
/// by its message. For handlers of batches, in which each message has a scope of its own
/// ([`InBatch::scope`](crate::InBatch::scope)). Returns the event's id. Fails if `scope` belongs to another tenant than
/// the transaction.
pub async fn publish_as<E: Event>(tx: &mut Tx, scope: &Scope, event: &E) -> Result<Uuid, PublishError> {
    let tenant = tx.tenant().map_err(BusError::from)?.clone();
    send_as(tx, scope, NewMessage::from_event(event, &tenant)?).await
}

/// Publishes a message in its general form with the commit of `tx`. Returns its id.
pub async fn send(tx: &mut Tx, message: NewMessage) -> Result<Uuid, PublishError> {
    let publisher: Arc<Publisher> = tx.context().ok_or(PublishError::NoPublisher)?;
    let outgoing = publisher.check(tx, tx.scope(), message)?;
    publisher.append(tx, outgoing).await
}

/// Publishes a message in its general form under `scope`, as [`publish_as`] does. Returns its id.
pub async fn send_as(tx: &mut Tx, scope: &Scope, message: NewMessage) -> Result<Uuid, PublishError> {
    let publisher: Arc<Publisher> = tx.context().ok_or(PublishError::NoPublisher)?;
    if scope.tenant.as_ref() != Some(tx.tenant().map_err(BusError::from)?) {
        return Err(PublishError::Invalid(
            "the scope belongs to another tenant than the transaction; publish under a scope of the transaction's tenant".into(),
        ));
    }
    let outgoing = publisher.check(tx, scope, message)?;
    publisher.append(tx, outgoing).await
}

/// The extension attribute of a message that is of no use after a time.
const DEADLINE: &str = "deadline";
/// The extension attribute of a message that started a separate story: the correlation id of the originating story.
pub const PARENT_CORRELATION: &str = "parentCorrelationId";

/// The extension attribute of a dead letter's copy: why the message died.
pub(crate) const DEAD_LETTER: &str = "deadLetter";

/// On an external bus, publishes a copy of a dead letter to its queue's dead-letter exchange, for people who look
/// there. The dead letter itself is in the database.
pub(crate) async fn copy_dead_letter(
    tx: &mut Tx,
    delivery: &Delivery,
    queue: &Queue,
    reason: DeadReason,
) -> Result<(), BusError> {
    let (Some(target), Some(publisher)) = (&queue.dead_letter, tx.context::<Publisher>()) else {
        return Ok(());
    };
    if !publisher.log.router().table().await?.relayed() {
        return Ok(());
    }
    let own_key = delivery.topic.split_once(':').map_or("", |(_, key)| key);
    let mut envelope = delivery.envelope.clone();
    let death = serde_json::json!({"reason": reason.as_str(), "queue": queue.name, "attempts": delivery.attempt});
    envelope.extensions.insert(DEAD_LETTER.to_owned(), death);
    // The copy is a separate message: the key belongs to the original, which may die again.
    envelope.idempotency_key = IdempotencyKey::new(format!("dead-letter:{}", Uuid::now_v7()))
        .map_err(|error| BusError::Malformed(error.to_string()))?;
    let copy = OutgoingMessage {
        envelope,
        topic: Topic::new(&target.exchange, target.routing_key.as_deref().unwrap_or(own_key)),
        ordering_key: delivery.ordering_key.clone(),
        deduplicate: false,
        aggregate: None,
        delay: None,
        priority: delivery.priority,
    };
    append::append(&publisher.log, tx, copy).await
}

impl Publisher {
    /// Appends a checked message to the transaction and registers its counters. Returns its id.
    async fn append(&self, tx: &mut Tx, outgoing: OutgoingMessage) -> Result<Uuid, PublishError> {
        let id = outgoing.envelope.event_id;
        let counters = self.counters.iter().filter(|counter| counter.exchange == outgoing.topic.exchange);
        let counters: Vec<PublishCounter> = counters.copied().collect();
        append::append(&self.log, tx, outgoing).await?;
        counters.into_iter().for_each(|counter| tx.after_commit(move || counter.add(1)));
        Ok(id)
    }

    /// Checks a message and completes it from `scope`.
    fn check(&self, tx: &Tx, scope: &Scope, message: NewMessage) -> Result<OutgoingMessage, PublishError> {
        let invalid = |error: &dyn std::fmt::Display| PublishError::Invalid(error.to_string());
        let tenant = tx.tenant().map_err(BusError::from)?.clone();
        let event_type: EventType = message.event_type.parse().map_err(|error| invalid(&error))?;
        let topic: Topic = message.topic.parse().map_err(|error| invalid(&error))?;
        check_routing_tenant(&topic, &tenant)?;
        if message.ordering_key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 255) {
            return Err(PublishError::Invalid("an ordering key must have 1 to 255 bytes".into()));
        }
        self.schemas.validate(event_type.schema_id(), &message.payload)?;
        let event_id = Uuid::now_v7();
        let deduplicate = message.idempotency_key.is_some();
        let idempotency_key = match message.idempotency_key {
            Some(key) => IdempotencyKey::new(key).map_err(|error| invalid(&error))?,
            None => IdempotencyKey::from(event_id),
        };
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
            actor: actor_of(scope),
            occurred_at: SystemClock.now(),
            extensions,
            payload: message.payload.into(),
            trace: scope.trace.clone(),
        };
        Ok(OutgoingMessage {
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

/// The actor: a person, a service, or a service on behalf of a person.
fn actor_of(scope: &Scope) -> Option<Actor> {
    let Actor { user_id, service } = &scope.actor;
    let is_service = service.as_deref().is_some_and(|service| service != Scope::NO_SERVICE);
    (user_id.is_some() || is_service).then(|| scope.actor.clone())
}

/// Fails if a routing key `tenant.<id>.…` names another tenant than the publishing one.
fn check_routing_tenant(topic: &Topic, tenant: &TenantId) -> Result<(), PublishError> {
    match routing_tenant(&topic.routing_key) {
        Some(named) if named != tenant.as_str() => Err(PublishError::Invalid(format!(
            "the routing key names tenant \"{named}\", but the transaction belongs to \"{tenant}\""
        ))),
        _ => Ok(()),
    }
}

/// Returns the tenant named by a routing key of the form `tenant.<id>.…`.
pub(crate) fn routing_tenant(routing_key: &str) -> Option<&str> {
    routing_key.strip_prefix("tenant.")?.split('.').next()
}

/// Returns the deadline of a message, if it has one that can be read.
pub(crate) fn deadline_of(envelope: &Envelope) -> Option<Timestamp> {
    envelope.extensions.get(DEADLINE)?.as_str()?.parse().ok()
}

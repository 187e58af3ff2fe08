//! How a relay reads the outbox: messages are packed into parcels as they are read.

use crate::{
    BusError, MessageLog,
    queue_reader::{QueueReader, Subscription},
    routes::OUTBOX,
    stored_message::StoredMessage,
    turn::LaneTurn,
    turn_message::{RowContext, TurnMessage, UnreadableMessage},
};
use jiff::Timestamp;
use onceward_broker::{Delivery, Parcel, Settlement, wire};
use onceward_db::Row;
use onceward_envelope::{
    Envelope, TraceContext,
    headers::{TRACEPARENT, TRACESTATE},
};
use onceward_topology::{Topic, Topology};
use quick_cache::unsync::Cache;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc, time::Duration};
use uuid::Uuid;

/// The maximum number of resolved topics that a task caches. A routing key may contain an id, so their number is unbounded.
const CACHED_TOPICS_MAX: usize = 4_096;

/// The outbox as read by the tasks of one relay.
pub struct OutboxReader(QueueReader);

impl OutboxReader {
    /// Opens the outbox for up to `tasks` concurrent readers.
    pub async fn open(log: &MessageLog, tasks: usize) -> Result<Self, BusError> {
        let subscription = Subscription {
            consumer: "relay".into(),
            queue: OUTBOX.into(),
            ordered: true,
            holds_keys: false,
            concurrency: tasks,
            isolate_killers: false,
        };
        Ok(Self(log.open(subscription).await?))
    }

    /// Takes up to `limit` messages, if any are waiting, from a fair share of the lanes among `sharers`, and packs them
    /// as they are read. The lanes stay locked until the turn is settled or dropped.
    pub async fn take(
        &self,
        limit: usize,
        sharers: usize,
        parcels: &mut ParcelBuilder,
    ) -> Result<Option<OutboxTurn>, BusError> {
        Ok(self.0.begin_turn(limit, sharers, parcels).await?.map(OutboxTurn))
    }

    /// Waits until messages may be available, at most for `most`.
    pub async fn wait(&self, most: Duration) {
        self.0.wait(most).await;
    }
}

/// Packs the messages of the outbox into parcels as they are read.
pub struct ParcelBuilder {
    topics: TopicCache,
    packer: wire::Packer,
}

impl ParcelBuilder {
    /// Creates a builder for topics that `topology` routes.
    pub fn new(topology: Topology) -> Self {
        Self { topics: TopicCache::new(topology), packer: wire::Packer::default() }
    }
}

/// A resolved topic.
#[derive(Clone, Debug)]
struct TopicRoute {
    topic: Arc<Topic>,
    /// Whether the topology binds a queue to it.
    has_readers: bool,
}

/// Resolved topics by their text, so that a task resolves each of them once.
struct TopicCache {
    topology: Topology,
    routes: Cache<String, TopicRoute>,
    /// The last result: consecutive messages often have the same topic.
    last: Option<(String, TopicRoute)>,
}

impl TopicCache {
    /// Creates an empty cache of topics that `topology` routes.
    fn new(topology: Topology) -> Self {
        Self { topology, routes: Cache::new(CACHED_TOPICS_MAX), last: None }
    }

    /// Resolves `topic`. Fails with the reason if it is not a topic.
    fn resolve(&mut self, topic: &str) -> Result<TopicRoute, String> {
        if let Some((_, route)) = self.last.as_ref().filter(|(last, _)| last == topic) {
            return Ok(route.clone());
        }
        let route = self.find_or_insert(topic)?;
        self.last = Some((topic.to_owned(), route.clone()));
        Ok(route)
    }

    fn find_or_insert(&mut self, text: &str) -> Result<TopicRoute, String> {
        if let Some(route) = self.routes.get(text) {
            return Ok(route.clone());
        }
        let topic: Topic = text.parse().map_err(|error| format!("{error}"))?;
        let readers = self.topology.route(&topic.exchange, &topic.routing_key).map_or(0, |queues| queues.len());
        let route = TopicRoute { topic: Arc::new(topic), has_readers: readers > 0 };
        self.routes.insert(text.to_owned(), route.clone());
        Ok(route)
    }
}

/// Messages that were taken together. Dropping the turn leaves them where they were.
pub struct OutboxTurn(LaneTurn<OutboxMessage>);

impl OutboxTurn {
    /// The messages, in order.
    pub fn messages(&self) -> &[OutboxMessage] {
        self.0.messages()
    }

    /// Returns one parcel per message.
    pub fn parcels(&self) -> Vec<Parcel> {
        self.0.messages().iter().map(|message| message.parcel.clone()).collect()
    }

    /// Records the settlement of each message and commits. `settlements` must have one entry per message.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<(), BusError> {
        assert_eq!(self.0.messages().len(), settlements.len(), "a turn needs one settlement per message");
        self.0.finish(Vec::new(), settlements).await
    }
}

/// A message being relayed: its parcel, from which the message is rebuilt if the bus refuses it.
pub struct OutboxMessage {
    parcel: Parcel,
    published_at: Timestamp,
    context: RowContext,
}

impl OutboxMessage {
    /// The event's id.
    pub fn event_id(&self) -> Uuid {
        self.parcel.id
    }

    /// The destination.
    pub fn topic(&self) -> &Topic {
        &self.parcel.topic
    }

    /// When it was published.
    pub fn published_at(&self) -> Timestamp {
        self.published_at
    }

    /// The trace it belongs to.
    pub fn trace(&self) -> Option<TraceContext> {
        let headers = &self.parcel.headers;
        headers.get(TRACEPARENT).and_then(TraceContext::parse).map(|trace| trace.with_state(headers.get(TRACESTATE)))
    }

    /// The number of this attempt, starting at 1.
    pub fn attempt(&self) -> u32 {
        self.context.attempt
    }
}

impl TurnMessage for OutboxMessage {
    type Context = ParcelBuilder;
    const QUIET: bool = true;

    fn from_row(row: Row, context: RowContext, builder: &mut ParcelBuilder) -> Result<Self, UnreadableMessage> {
        let packed = StoredMessage::read(&row, &context).and_then(|stored| {
            let TopicRoute { topic, has_readers } = builder.topics.resolve(stored.topic)?;
            let contents = stored.parcel_contents(context.lane.message_priority());
            let parcel = builder.packer.pack(&contents, topic, has_readers).map_err(|error| error.to_string())?;
            Ok((parcel, stored.published_at))
        });
        match packed {
            Ok((parcel, published_at)) => Ok(Self { parcel, published_at, context }),
            Err(error) => Err(UnreadableMessage::new(error, &row, &context)),
        }
    }

    fn add_attempts(&mut self, more: u32) {
        self.context.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, UnreadableMessage> {
        let Self { parcel, published_at, context } = self;
        let envelope = Envelope::from_json_bytes(&parcel.body);
        let envelope =
            envelope.map_err(|error| UnreadableMessage { error: error.to_string(), raw: self.raw_fields() })?;
        let trace = self.trace();
        Ok(Cow::Owned(Delivery {
            envelope: Envelope { trace, ..envelope },
            topic: parcel.topic.to_string(),
            ordering_key: parcel.ordering_key.clone(),
            priority: parcel.priority,
            queue_tenant: context.lane.tenant.clone(),
            attempt: context.attempt,
            published_at: *published_at,
            first_error: context.first_error().map(str::to_owned),
            first_failed_at: context.first_failed_at(),
            unknown_since: context.unknown_since(),
        }))
    }
}

/// The fields that can be read even if the body as a whole cannot, for example because its payload is nested too
/// deeply.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadableFields {
    r#type: String,
    version: u16,
    correlation_id: String,
}

impl OutboxMessage {
    fn raw_fields(&self) -> Value {
        let Parcel { id, topic, ordering_key, body, .. } = &self.parcel;
        let ReadableFields { r#type, version, correlation_id } = serde_json::from_slice(body).unwrap_or_default();
        json!({
            "id": id,
            "tenant_id": self.context.tenant_id(),
            "event_type": r#type,
            "version": version,
            "topic": topic.to_string(),
            "ordering_key": ordering_key,
            "correlation_id": correlation_id,
            "body": String::from_utf8_lossy(body),
        })
    }
}

//! How a relay reads: the outbox, of whose messages it makes parcels as they come.

use crate::{
    PostgresTransport,
    queue::LaneQueue,
    routes::OUTBOX,
    rows::{Message, Origin, Unreadable},
    stored::Stored,
    turn::LaneTurn,
};
use bytes::Bytes;
use jiff::Timestamp;
use onceward_db::Row;
use onceward_envelope::{Envelope, TraceContext};
use onceward_topology::Topic;
use onceward_transport::{Delivery, Parcel, Settlement, Subscription, TransportError, wire};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{borrow::Cow, sync::Arc, time::Duration};
use uuid::Uuid;

/// The outbox, as the tasks of one relay read it.
pub struct Outbox(LaneQueue);

impl Outbox {
    /// Opens it for as many as `tasks` that read at the same time.
    pub async fn open(bus: &PostgresTransport, tasks: usize) -> Result<Self, TransportError> {
        let subscription = Subscription {
            consumer: "relay".into(),
            queue: OUTBOX.into(),
            ordered: true,
            concurrency: tasks,
            isolate_killers: false,
        };
        Ok(Self(bus.open_queue(subscription).await?))
    }

    /// Takes up to `limit` messages, if there are any, out of a fair share of the lanes among `sharers`, and packs them as they
    /// come. Nobody else reads in those lanes until the turn is settled or dropped.
    pub async fn take(
        &self,
        limit: usize,
        sharers: usize,
        ways: &mut (impl Ways + 'static),
    ) -> Result<Option<OutboxTurn>, TransportError> {
        Ok(self.0.begin_turn(limit, sharers, ways as &mut dyn Ways).await?.map(OutboxTurn))
    }

    /// Waits until there may be something to take.
    pub async fn wait(&self, most: Duration) {
        self.0.woken(most).await;
    }
}

/// Where a topic is, and whether somebody reads there.
pub type Way = (Arc<Topic>, bool);

/// Finds topics by their text.
pub trait Ways: Send {
    /// The way to `topic`; an error says why there is none.
    fn find(&mut self, topic: &str) -> Result<Way, String>;
}

/// Messages that were taken together. Dropped, it leaves them where they were.
pub struct OutboxTurn(LaneTurn<Carried>);

impl OutboxTurn {
    /// The messages, in their order.
    pub fn messages(&self) -> &[Carried] {
        self.0.messages()
    }

    /// A parcel for each message. They are given once.
    pub fn take_parcels(&mut self) -> Vec<Parcel> {
        self.0.messages_mut().iter_mut().filter_map(|message| message.parcel.take()).collect()
    }

    /// Writes what becomes of each message.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<(), TransportError> {
        assert_eq!(self.0.messages().len(), settlements.len(), "one settlement for each message");
        self.0.finish(Vec::new(), settlements).await
    }
}

/// A message on its way to the bus: its parcel, and what it takes to make a message of it again if the bus does not want it.
pub struct Carried {
    parcel: Option<Parcel>,
    event_id: Uuid,
    topic: Arc<Topic>,
    ordering_key: Option<String>,
    body: Bytes,
    trace: Option<TraceContext>,
    published_at: Timestamp,
    origin: Origin,
}

impl Carried {
    /// The event's id.
    pub fn event_id(&self) -> Uuid {
        self.event_id
    }

    /// Where to.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// When it was published.
    pub fn published_at(&self) -> Timestamp {
        self.published_at
    }

    /// 1 for the first time.
    pub fn attempt(&self) -> u32 {
        self.origin.attempt
    }
}

impl Message for Carried {
    type Guide = dyn Ways;
    const QUIET: bool = true;

    fn read(row: Row, origin: Origin, ways: &mut Self::Guide) -> Result<Self, Unreadable> {
        let packed = Stored::read(&row, &origin).and_then(|stored| {
            let (topic, expected) = ways.find(stored.topic)?;
            let contents = stored.contents(origin.lane.message_priority());
            let parcel = wire::pack(contents, topic, expected).map_err(|error| error.to_string())?;
            Ok((parcel, stored.published_at, stored.trace))
        });
        match packed {
            Ok((parcel, published_at, trace)) => Ok(Self {
                event_id: parcel.id,
                topic: parcel.topic.clone(),
                ordering_key: parcel.ordering_key.clone(),
                body: parcel.body.clone(),
                parcel: Some(parcel),
                trace,
                published_at,
                origin,
            }),
            Err(error) => Err(Unreadable::new(error, &row, &origin)),
        }
    }

    fn add_attempts(&mut self, more: u32) {
        self.origin.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, Unreadable> {
        let envelope = Envelope::from_json_bytes(&self.body);
        let envelope = envelope.map_err(|error| Unreadable { error: error.to_string(), raw: self.raw() })?;
        let Origin { lane, attempt, first_error, first_failed_at, .. } = &self.origin;
        Ok(Cow::Owned(Delivery {
            envelope: Envelope { trace: self.trace.clone(), ..envelope },
            topic: self.topic.to_string(),
            ordering_key: self.ordering_key.clone(),
            priority: lane.message_priority(),
            queue_tenant: lane.tenant.clone(),
            attempt: *attempt,
            published_at: self.published_at,
            first_error: first_error.clone(),
            first_failed_at: *first_failed_at,
        }))
    }
}

/// What can be read even of a body that cannot, for example because its payload is nested too deeply.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Readable {
    r#type: String,
    version: u16,
    correlation_id: String,
}

impl Carried {
    fn raw(&self) -> Value {
        let Readable { r#type, version, correlation_id } = serde_json::from_slice(&self.body).unwrap_or_default();
        json!({
            "id": self.event_id,
            "tenant_id": self.origin.tenant_id(),
            "event_type": r#type,
            "version": version,
            "topic": self.topic.to_string(),
            "ordering_key": self.ordering_key,
            "correlation_id": correlation_id,
            "body": String::from_utf8_lossy(&self.body),
        })
    }
}

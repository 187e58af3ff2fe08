//! How a relay reads: the outbox, of whose messages it makes parcels as they come.

use crate::{
    PostgresTransport,
    queue::LaneQueue,
    routes::OUTBOX,
    rows::{Message, Origin, Unreadable},
    stored::Stored,
    turn::LaneTurn,
};
use jiff::Timestamp;
use onceward_db::Row;
use onceward_envelope::{Envelope, TraceContext, headers::TRACEPARENT};
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
        packing: &mut Packing,
    ) -> Result<Option<OutboxTurn>, TransportError> {
        Ok(self.0.begin_turn(limit, sharers, packing).await?.map(OutboxTurn))
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

/// What it takes to make parcels.
pub struct Packing {
    ways: Box<dyn Ways>,
    packer: wire::Packer,
}

impl Packing {
    /// For topics that `ways` finds.
    pub fn new(ways: impl Ways + 'static) -> Self {
        Self { ways: Box::new(ways), packer: wire::Packer::default() }
    }
}

/// Messages that were taken together. Dropped, it leaves them where they were.
pub struct OutboxTurn(LaneTurn<Carried>);

impl OutboxTurn {
    /// The messages, in their order.
    pub fn messages(&self) -> &[Carried] {
        self.0.messages()
    }

    /// A parcel for each message.
    pub fn parcels(&self) -> Vec<Parcel> {
        self.0.messages().iter().map(|message| message.parcel.clone()).collect()
    }

    /// Writes what becomes of each message.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<(), TransportError> {
        assert_eq!(self.0.messages().len(), settlements.len(), "one settlement for each message");
        self.0.finish(Vec::new(), settlements).await
    }
}

/// A message on its way to the bus: its parcel, of which a message is made again if the bus does not want it.
pub struct Carried {
    parcel: Parcel,
    published_at: Timestamp,
    origin: Origin,
}

impl Carried {
    /// The event's id.
    pub fn event_id(&self) -> Uuid {
        self.parcel.id
    }

    /// Where to.
    pub fn topic(&self) -> &Topic {
        &self.parcel.topic
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
    type Guide = Packing;
    const QUIET: bool = true;

    fn read(row: Row, origin: Origin, Packing { ways, packer }: &mut Packing) -> Result<Self, Unreadable> {
        let packed = Stored::read(&row, &origin).and_then(|stored| {
            let (topic, expected) = ways.find(stored.topic)?;
            let contents = stored.contents(origin.lane.message_priority());
            let parcel = packer.pack(&contents, topic, expected).map_err(|error| error.to_string())?;
            Ok((parcel, stored.published_at))
        });
        match packed {
            Ok((parcel, published_at)) => Ok(Self { parcel, published_at, origin }),
            Err(error) => Err(Unreadable::new(error, &row, &origin)),
        }
    }

    fn add_attempts(&mut self, more: u32) {
        self.origin.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, Unreadable> {
        let Self { parcel, published_at, origin } = self;
        let envelope = Envelope::from_json_bytes(&parcel.body);
        let envelope = envelope.map_err(|error| Unreadable { error: error.to_string(), raw: self.raw() })?;
        let trace = parcel.headers.get(TRACEPARENT).and_then(TraceContext::parse);
        Ok(Cow::Owned(Delivery {
            envelope: Envelope { trace, ..envelope },
            topic: parcel.topic.to_string(),
            ordering_key: parcel.ordering_key.clone(),
            priority: parcel.priority,
            queue_tenant: origin.lane.tenant.clone(),
            attempt: origin.attempt,
            published_at: *published_at,
            first_error: origin.first_error().map(str::to_owned),
            first_failed_at: origin.first_failed_at(),
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
        let Parcel { id, topic, ordering_key, body, .. } = &self.parcel;
        let Readable { r#type, version, correlation_id } = serde_json::from_slice(body).unwrap_or_default();
        json!({
            "id": id,
            "tenant_id": self.origin.tenant_id(),
            "event_type": r#type,
            "version": version,
            "topic": topic.to_string(),
            "ordering_key": ordering_key,
            "correlation_id": correlation_id,
            "body": String::from_utf8_lossy(body),
        })
    }
}

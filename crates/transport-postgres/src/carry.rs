//! How a relay reads: the outbox, of whose messages it needs no more than what a parcel is made of.

use crate::{
    PostgresTransport,
    queue::LaneQueue,
    routes::OUTBOX,
    rows::{Message, Origin, Unreadable, column},
    stored::Stored,
    turn::LaneTurn,
};
use jiff::Timestamp;
use onceward_db::Row;
use onceward_topology::Topic;
use onceward_transport::{Delivery, Parcel, Settlement, Subscription, TransportError, wire};
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

    /// Takes up to `limit` messages, if there are any, out of a fair share of the lanes among `sharers`. Nobody else reads in
    /// those until the turn is settled or dropped.
    pub async fn take(&self, limit: usize, sharers: usize) -> Result<Option<OutboxTurn>, TransportError> {
        Ok(self.0.begin_turn(limit, sharers).await?.map(OutboxTurn))
    }

    /// Waits until there may be something to take.
    pub async fn wait(&self, most: Duration) {
        self.0.woken(most).await;
    }
}

/// Messages that were taken together. Dropped, it leaves them where they were.
pub struct OutboxTurn(LaneTurn<Waiting>);

impl OutboxTurn {
    /// The messages, in their order.
    pub fn messages(&self) -> &[Waiting] {
        self.0.messages()
    }

    /// Writes what becomes of each message.
    pub async fn settle(self, settlements: &[Settlement]) -> Result<(), TransportError> {
        assert_eq!(self.0.messages().len(), settlements.len(), "one settlement for each message");
        self.0.finish(Vec::new(), settlements).await
    }
}

/// A message that waits to be carried: the row that it is, which is read when it is packed.
pub struct Waiting {
    row: Row,
    origin: Origin,
}

impl Waiting {
    /// The event's id.
    pub fn event_id(&self) -> Uuid {
        self.row.get(column::ID)
    }

    /// The event's name, without its version.
    pub fn event_name(&self) -> &str {
        self.row.get(column::EVENT_TYPE)
    }

    /// `<exchange>:<routing key>`.
    pub fn topic(&self) -> &str {
        self.row.get(column::TOPIC)
    }

    /// When it was published.
    pub fn published_at(&self) -> Timestamp {
        self.row.get(column::CREATED_AT)
    }

    /// 1 for the first time.
    pub fn attempt(&self) -> u32 {
        self.origin.attempt
    }

    /// Packs it for `topic`. An error says why nobody could read it.
    pub fn pack(&self, topic: Arc<Topic>, expected: bool) -> Result<Parcel, String> {
        let stored = Stored::read(&self.row, &self.origin)?;
        let contents = stored.contents(self.origin.lane.message_priority());
        wire::pack(contents, topic, expected).map_err(|error| error.to_string())
    }
}

impl Message for Waiting {
    fn read(row: Row, origin: Origin) -> Result<Self, Unreadable> {
        Ok(Self { row, origin })
    }

    fn add_attempts(&mut self, more: u32) {
        self.origin.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, Unreadable> {
        let delivery = Stored::read(&self.row, &self.origin).and_then(|stored| stored.delivery(&self.origin));
        delivery.map(Cow::Owned).map_err(|error| Unreadable::new(error, &self.row, &self.origin))
    }
}

//! Kafka as a bus.
//!
//! | Onceward | Kafka |
//! | --- | --- |
//! | exchange | topic of the same name with `Exchange::partitions` partitions (default: 8) |
//! | dead-letter exchange | topic like any other |
//! | queue | consumer group of the same name, subscribed to the topics of all exchanges it is bound to |
//! | binding | a filter in the reader: it skips records whose routing key (in `x-topic`) no binding matches |
//! | ordering key | record key; a message without one goes to any partition |
//! | accepted | the group's committed offset, and a position in the database (`start.rs`) |
//! | declared queue | a record in the topic `onceward-queues` with the offsets where the queue starts (`queue_starts.rs`) |
//!
//! Consequences:
//!
//! - *Every queue reads all records of its topics.* A queue that needs few messages of a busy exchange should get its own
//!   exchange.
//! - *Bindings take effect where a queue is read.* While old and new versions of a service run side by side, partitions
//!   that the old version reads are filtered by the old bindings.
//! - *Kafka deletes by age* (`retention.ms`), read or not. `advise` warns if that is sooner than a week.
//! - *The number of partitions is permanent:* changing it moves keys, which lose their order for a while.
//! - *Order per key* holds within an exchange. Each partition has one reader at a time, whatever `ReceiveOptions::exclusive` says.
//! - *Prefetch* limits unaccepted messages; records that librdkafka fetches ahead block no other reader.
//! - *Bodies* may have up to 16 MiB. Topics are declared for that (`max.message.bytes`; Kafka's default is 1 MiB); a topic
//!   created by another program rejects what is too large for it.
//! - *Delivery limits, priorities and times to live* are handled by the database.
//! - A message from another program, without our headers, reaches every queue of its topic.
//!
//! The URL is described in `url.rs`. Reading order: `publish.rs` and `publisher.rs`, `receive.rs`, `group.rs` and
//! `start.rs`, `queue_starts.rs`, `declare.rs`.

mod admin;
mod advise;
mod backlog;
mod batch;
mod bindings;
mod check;
mod connection;
mod declare;
mod group;
mod in_flight;
mod peek;
mod publish;
mod publisher;
mod queue_starts;
mod receive;
mod start;
mod url;

use async_trait::async_trait;
use onceward_broker::{
    Backlog, Broker, BrokerConfig, BrokerError, Capabilities, Parcel, PositionStore, PublishOutcome, ReceiveOptions,
    Receiver, TopologyDifference,
};
use onceward_topology::Topology;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;

/// The largest accepted body.
const MAX_BODY_BYTES: usize = 16 << 20;
/// The largest record: a body with its key and headers.
const TOPIC_BYTES: usize = MAX_BODY_BYTES + (1 << 20);

/// Kafka, for one topology. Connects at first use.
pub struct KafkaBroker {
    config: BrokerConfig,
    topology: Topology,
    publisher: Mutex<Option<Arc<publisher::KafkaPublisher>>>,
    admin: Mutex<Option<Arc<admin::KafkaAdmin>>>,
    positions: Option<Arc<dyn PositionStore>>,
    /// Tracks clients that are not closed yet.
    open_clients: TaskTracker,
}

impl KafkaBroker {
    /// Creates a broker that has not connected yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        let (publisher, admin, open_clients) = (Mutex::default(), Mutex::default(), TaskTracker::new());
        Self { config, topology, publisher, admin, positions: None, open_clients }
    }

    /// Also stores how far queues were read in `positions`, because Kafka deletes the offsets of unused groups.
    #[must_use]
    pub fn with_positions(mut self, positions: Arc<dyn PositionStore>) -> Self {
        self.positions = Some(positions);
        self
    }

    /// The timeout of one request.
    fn request_timeout(&self) -> Duration {
        self.config.connect_timeout.min(self.config.heartbeat)
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_deliveries: false,
            limits_deliveries: false,
            // A topic stores every message, whether or not a queue reads it. Only a missing topic refuses.
            refuses_unroutable: false,
            reports_age: true,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        self.create_missing().await
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        self.differences().await
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.publish_all(parcels).await
    }

    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        Ok(Box::new(receive::KafkaReceiver::open(self, reading).await?))
    }

    /// Counts all records of the queue's topics, including those for other queues.
    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError> {
        Ok(self.backlogs_of(std::slice::from_ref(&queue.to_owned())).await?.pop().unwrap_or_default())
    }

    async fn backlogs(&self, queues: &[String]) -> Result<Vec<Backlog>, BrokerError> {
        self.backlogs_of(queues).await
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.admin(|admin| admin.any_server().map(drop)).await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        self.advice().await
    }

    async fn close(&self) {
        drop(self.publisher.lock().take());
        drop(self.admin.lock().take());
        self.open_clients.close();
        if tokio::time::timeout(self.config.heartbeat, self.open_clients.wait()).await.is_err() {
            tracing::debug!("some Kafka clients are still closing");
        }
    }
}

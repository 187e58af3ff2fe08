//! Kafka as a bus.
//!
//! | Onceward | Kafka |
//! | --- | --- |
//! | exchange | topic of the same name; `Exchange::partitions` of them, 8 unless said |
//! | dead-letter exchange | topic like any other |
//! | queue | consumer group of the same name, subscribed to the topics of all exchanges it is bound to |
//! | binding | what the reader lets in: it passes over records whose routing key (in `x-topic`) no binding matches |
//! | ordering key | record key; a message without one goes to any partition |
//! | accepted | the group's committed offset |
//! | declared queue | a record in the topic `onceward-queues`, which says where the queue begins (`births.rs`) |
//!
//! Consequences:
//!
//! - *Every queue reads all records of its topics.* Queues that want little of a busy exchange want one of their own.
//! - *Bindings take effect where a queue is read.* While old and new versions of a service run side by side, a partition
//!   that the old one reads is passed over by the old bindings.
//! - *Kafka deletes by age* (`retention.ms`), read or not. `advise` says when that is sooner than a week.
//! - *Partitions are for good:* with another number of them, keys move and lose their order for a while.
//! - *Order per key* holds within an exchange. Each partition has one reader at a time, whatever `Reading::exclusive` says.
//! - *Prefetch* bounds what is handed out; nobody else waits for what is fetched ahead.
//! - *Bodies* may have 16 MiB. Topics are declared for that (`max.message.bytes`), in place of Kafka's 1 MiB; a topic made
//!   by others refuses what is too large for it.
//! - *Delivery limits, priorities and times to live* are the database's business.
//! - A message by another program, without our headers, reaches every queue of its topic.
//!
//! The URL is described in `url.rs`. Reading order: `publish.rs` and `publisher.rs`, `receive.rs` and `group.rs`, `births.rs`,
//! `declare.rs`.

mod admin;
mod advise;
mod batch;
mod bindings;
mod births;
mod check;
mod connection;
mod declare;
mod group;
mod hand;
mod publish;
mod publisher;
mod receive;
mod url;
mod waiting;

use async_trait::async_trait;
use onceward_topology::Topology;
use onceward_transport::{
    Broker, BrokerConfig, BrokerError, Capabilities, Difference, Parcel, Reading, Receiver, Verdict,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::task::TaskTracker;

/// The largest body that is carried.
const MAX_BODY_BYTES: usize = 16 << 20;
/// The largest record: a body with its key and headers.
const TOPIC_BYTES: usize = MAX_BODY_BYTES + (1 << 20);

/// Kafka, for one topology. Connects at first use.
pub struct KafkaBroker {
    config: BrokerConfig,
    topology: Topology,
    publisher: Mutex<Option<Arc<publisher::Publisher>>>,
    admin: Mutex<Option<Arc<admin::Admin>>>,
    /// Clients that have not ended yet.
    open: TaskTracker,
}

impl KafkaBroker {
    /// A broker that has not connected yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self { config, topology, publisher: Mutex::default(), admin: Mutex::default(), open: TaskTracker::new() }
    }

    /// How long one question may take.
    fn asking_time(&self) -> Duration {
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
            // A topic keeps what it is given, whoever reads it. One that is missing refuses.
            refuses_unroutable: false,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        self.make_what_is_missing().await
    }

    async fn check(&self) -> Result<Vec<Difference>, BrokerError> {
        self.differences().await
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        self.send_all(parcels).await
    }

    async fn open(&self, reading: Reading) -> Result<Box<dyn Receiver>, BrokerError> {
        Ok(Box::new(receive::KafkaReceiver::open(self, reading).await?))
    }

    /// Counts all records of the queue's topics, those for other queues too.
    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        self.behind(queue).await.map(Some)
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.admin(|admin| admin.server().map(drop)).await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        self.advice().await
    }

    async fn close(&self) {
        drop(self.publisher.lock().expect("no panic while held").take());
        drop(self.admin.lock().expect("no panic while held").take());
        self.open.close();
        if tokio::time::timeout(self.config.heartbeat, self.open.wait()).await.is_err() {
            tracing::debug!("some Kafka clients take longer to end");
        }
    }
}

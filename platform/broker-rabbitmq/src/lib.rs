//! RabbitMQ as the bus.
//!
//! | topology | RabbitMQ |
//! | --- | --- |
//! | exchange | a durable exchange of its kind |
//! | queue | a durable quorum queue: `x-queue-type=quorum` |
//! | delivery limit | `x-delivery-limit` |
//! | dead letter | `x-dead-letter-exchange`, `x-dead-letter-routing-key` |
//! | time to live | `x-message-ttl` |
//! | binding | a binding; `declare` repeats it, and `check` compares bindings if there is a management API (`management.rs`) |
//! | priority, shards, partitions | nothing: they apply in the database |
//!
//! A message is persistent, its headers are long strings, and its `message_id`, `correlation_id`, `type` and `timestamp`
//! repeat the headers. It is mandatory when the topology has a queue for it, so that RabbitMQ returns it if it is unroutable.
//!
//! There are at most three connections, each opened on first use: one publishes, with one channel per batch in flight; one
//! consumes, with one channel per queue, because RabbitMQ blocks whole connections when it is short of space, and consumers
//! are what frees space then; a short-lived one collects advice. Credentials need `configure`, `write` and `read` on the
//! topology's names and on `onceward\.reading\..*` (see `reader_lock.rs`).
//!
//! Every delivery that is not acknowledged counts against the delivery limit, including prefetched messages that were
//! never delivered. A reader that cannot store messages should therefore keep them rather than return them.
//!
//! Reading order: `publish.rs`, `receive.rs` with `reader_lock.rs`, then `declare.rs` and `check.rs`. All of them build on
//! `connection.rs`.

mod admin_channel;
mod advise;
mod arguments;
mod bindings;
mod check;
mod connection;
mod declare;
mod error;
mod management;
mod message;
mod publish;
mod reader_lock;
mod receive;

use admin_channel::{AdminChannel, ExistingQueue};
use async_trait::async_trait;
use connection::LazyConnection;
use onceward_broker::{
    Backlog, Broker, BrokerConfig, BrokerError, Capabilities, Parcel, PublishOutcome, ReceiveOptions, Receiver,
    TopologyDifference,
};
use onceward_topology::Topology;
use publish::RabbitMqPublisher;
use receive::{ConsumerConnection, RabbitMqReceiver};
use std::sync::Arc;

/// The log filter directive that silences `lapin`. It logs returned messages with their bodies, which must not be logged,
/// and reports replies and orderly closes as errors. Real errors are returned to the caller.
pub const LOG_DIRECTIVE: &str = "lapin=off";

/// At most what RabbitMQ accepts by default (128 MiB before version 4, 16 MiB since): a bus is for messages.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// RabbitMQ as the bus of one topology. Connects on first use and reconnects after a connection is lost.
pub struct RabbitMqBroker {
    topology: Topology,
    publisher: RabbitMqPublisher,
    consumers: Arc<ConsumerConnection>,
}

impl RabbitMqBroker {
    /// Creates a broker that has not connected yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self {
            topology,
            publisher: RabbitMqPublisher::new(LazyConnection::new(config.clone(), "publishing")),
            consumers: Arc::new(ConsumerConnection::new(LazyConnection::new(config, "reading"))),
        }
    }

    async fn admin_channel(&self) -> Result<AdminChannel, BrokerError> {
        Ok(AdminChannel::new(self.consumers.connection.get().await?))
    }
}

#[async_trait]
impl Broker for RabbitMqBroker {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_deliveries: true,
            limits_deliveries: true,
            refuses_unroutable: true,
            reports_age: false,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        declare::declare(&mut self.admin_channel().await?, &self.topology).await
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        let mut differences = check::check(&mut self.admin_channel().await?, &self.topology).await?;
        if let Ok(of_bindings) = bindings::compare(self.consumers.connection.config(), &self.topology).await? {
            differences.extend(of_bindings);
        }
        Ok(differences)
    }

    async fn unchecked(&self) -> Result<Vec<String>, BrokerError> {
        let compared = bindings::compare(self.consumers.connection.config(), &self.topology).await?;
        Ok(compared.err().into_iter().map(|why| format!("bindings could not be compared: {why}")).collect())
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.publisher.publish(&parcels).await
    }

    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        Ok(Box::new(RabbitMqReceiver::open(self.consumers.clone(), reading).await?))
    }

    /// Excludes messages that a reader holds, because RabbitMQ does not report them here. A message at the head of a quorum
    /// queue cannot be read without counting against its delivery limit, so its age is not reported either.
    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError> {
        match self.admin_channel().await?.find_queue(queue).await? {
            Some(ExistingQueue::Shared { waiting }) => Ok(Backlog { waiting: Some(waiting), oldest_at: None }),
            Some(ExistingQueue::Exclusive) => Ok(Backlog::default()),
            None => Err(BrokerError::Missing(format!("queue \"{queue}\""))),
        }
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.admin_channel().await?.ping().await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        advise::advise(&self.consumers.connection).await
    }

    async fn close(&self) {
        self.publisher.close().await;
        self.consumers.connection.close().await;
    }
}

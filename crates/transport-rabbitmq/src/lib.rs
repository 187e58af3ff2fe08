//! RabbitMQ as the bus.
//!
//! | topology | RabbitMQ |
//! | --- | --- |
//! | exchange | a durable exchange of its kind |
//! | queue | a durable quorum queue: `x-queue-type=quorum` |
//! | delivery limit | `x-delivery-limit` |
//! | dead letter | `x-dead-letter-exchange`, `x-dead-letter-routing-key` |
//! | time to live | `x-message-ttl` |
//! | binding | a binding; bindings cannot be listed over AMQP, so `check` does not know them and `declare` binds again |
//! | priority, shards, partitions | nothing: they matter in the database |
//!
//! A message is persistent, its headers are long strings, and its `message_id`, `correlation_id`, `type` and `timestamp`
//! repeat the headers. It is mandatory when the topology has a queue for it, so that RabbitMQ returns it if none takes it.
//!
//! Three connections at most, each made when it is needed: one publishes, with a channel for each batch that is on its way; one reads,
//! with a channel a queue, because RabbitMQ holds back whole connections when it is short of space and readers are what
//! helps then; a short one asks for advice. Credentials need `configure`, `write` and `read` on the topology's names and on
//! `onceward\.reading\..*` (see `claim.rs`).
//!
//! Every delivery that ends without being accepted counts against the delivery limit, also those that were only on
//! their way. So a reader that cannot write messages down had better hold them than hand them back.
//!
//! Reading order: `publish.rs`, `receive.rs` with `claim.rs`, then `declare.rs` and `check.rs`. `connection.rs` and
//! `link.rs` are below all of them.

mod advise;
mod check;
mod claim;
mod clerk;
mod connection;
mod declare;
mod link;
mod message;
mod publish;
mod receive;
mod shape;
mod trouble;

use async_trait::async_trait;
use clerk::{Clerk, Known};
use link::Link;
use onceward_topology::Topology;
use onceward_transport::{
    Broker, BrokerConfig, BrokerError, Capabilities, Difference, Parcel, Reading, Receiver, Verdict,
};
use publish::Publisher;
use receive::{RabbitMqReceiver, ReadingRoom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What to tell whoever filters the logs. The library logs messages that come back with their bodies, which do not belong
/// there, and as errors what is an answer or an end in order. What is an error to us is returned as one.
pub const LOG_DIRECTIVE: &str = "lapin=off";

/// Far below what RabbitMQ takes (128 MiB before version 4, 16 MiB since): a bus is for messages.
pub(crate) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// RabbitMQ, for one topology. Connects when it is first asked for something, and again when that was lost.
pub struct RabbitMqBroker {
    topology: Topology,
    publisher: Publisher,
    room: Arc<ReadingRoom>,
}

impl RabbitMqBroker {
    /// Does not connect yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self {
            topology,
            publisher: Publisher::new(Link::new(config.clone(), "publishing")),
            room: Arc::new(ReadingRoom::new(Link::new(config, "reading"))),
        }
    }

    async fn clerk(&self) -> Result<Clerk, BrokerError> {
        Ok(Clerk::new(self.room.link.wire().await?))
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
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        declare::declare(&mut self.clerk().await?, &self.topology).await
    }

    async fn check(&self) -> Result<Vec<Difference>, BrokerError> {
        check::check(&mut self.clerk().await?, &self.topology).await
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        self.publisher.publish(&parcels).await
    }

    async fn open(&self, reading: Reading) -> Result<Box<dyn Receiver>, BrokerError> {
        Ok(Box::new(RabbitMqReceiver::open(self.room.clone(), reading).await?))
    }

    /// Without those that a reader has in hand, of which RabbitMQ does not tell.
    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        match self.clerk().await?.find_queue(queue).await? {
            Some(Known::Queue { waiting }) => Ok(Some(waiting)),
            Some(Known::Locked) => Ok(None),
            None => Err(BrokerError::Missing(format!("queue \"{queue}\""))),
        }
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.clerk().await?.ping().await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        advise::advise(&self.room.link).await
    }

    async fn close(&self) {
        self.publisher.close().await;
        self.room.link.close().await;
    }
}

/// What is behind these locks is whole at any moment, whoever panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

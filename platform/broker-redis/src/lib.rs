//! Redis as the bus between services: streams, each with one consumer group.
//!
//! | topology | Redis |
//! | --- | --- |
//! | queue `q`, of either kind | the stream `onceward:{q}:stream` with the group `q`, which starts at the stream's beginning |
//! | exchange, binding | nothing: the publisher routes, and adds a message to the stream of each queue that matches |
//! | one reader at a time | the lease `onceward:{q}:reader`, a key that expires after [`BrokerConfig::heartbeat`] |
//! | message | an entry: the field `body`, and a field for each header (`entry.rs`) |
//! | accepted | acknowledged and deleted, so that a stream holds exactly the messages that are not accepted yet |
//! | delivery limit | an entry delivered that often moves to the streams bound to the queue's dead-letter exchange |
//!
//! Other programs publish with `XADD onceward:{q}:stream * body '{…}'`, and any headers as further fields.
//! A second group on such a stream would miss messages, because they are deleted once accepted; `check` reports it.
//!
//! **Order.** A batch is published in transactions on one connection, each only after the previous one succeeded, so a
//! server that refuses in the middle (out of memory, for example) leaves a prefix of the batch and no gaps. Reading is a
//! script that checks the lease and reads atomically: a reader that was stalled while another took over receives nothing
//! new. Each connection of a reader acquires the lease again with a higher generation, so that a command delayed on a
//! dead connection no longer counts; and each starts with everything delivered and not accepted, oldest first.
//!
//! **Limits.** Redis holds messages in memory. When it is full it refuses to publish (with `maxmemory-policy noeviction`),
//! messages wait in PostgreSQL, and reading continues. `advise` reports what a server's settings mean for durability.
//!
//! Redis 7.0 or newer, or Valkey. Cluster mode is not supported: a fan-out is one transaction over several queues. Neither
//! is Sentinel: the URL must point to the primary. A failover to a replica can lose what was not replicated yet.
//!
//! Reading order: `publish`, then `receiver`, `session` and the scripts in `lua/`.

mod advise;
mod backlog;
mod connection;
mod dead_letter;
mod declare;
mod entry;
mod names;
mod pool;
mod publish;
mod receiver;
mod renewal;
mod scripts;
mod session;

use async_trait::async_trait;
use onceward_broker::{
    Backlog, Broker, BrokerConfig, BrokerError, Capabilities, Parcel, PublishOutcome, ReceiveOptions, Receiver,
    TopologyDifference,
};
use onceward_topology::Topology;
use pool::SharedState;
use std::sync::Arc;

/// Larger bodies are refused: Redis copies a body several times.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Redis as the bus of one topology. Connects on first use.
pub struct RedisBroker {
    shared: Arc<SharedState>,
}

impl RedisBroker {
    /// Creates a broker that has not connected yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self { shared: Arc::new(SharedState::new(config, topology)) }
    }
}

#[async_trait]
impl Broker for RedisBroker {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_deliveries: true,
            limits_deliveries: true,
            refuses_unroutable: true,
            reports_age: true,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        self.shared.unless_closed(declare::declare(&self.shared)).await
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        self.shared.unless_closed(declare::check(&self.shared)).await
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.shared.unless_closed(publish::publish(&self.shared, parcels)).await
    }

    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        let opened = receiver::RedisReceiver::open(self.shared.clone(), reading);
        Ok(Box::new(self.shared.unless_closed(opened).await?))
    }

    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError> {
        self.shared.unless_closed(backlog::backlog(&self.shared, queue)).await
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        self.shared.unless_closed(self.shared.ping()).await
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        self.shared.unless_closed(advise::advise(&self.shared)).await
    }

    async fn close(&self) {
        self.shared.close().await;
    }
}

//! Redis as the bus between services: streams, each with one group of readers.
//!
//! | the topology says | Redis has |
//! | --- | --- |
//! | queue `q`, of either kind | the stream `onceward:{q}:stream` with the group `q`, which begins at the stream's beginning |
//! | exchange, binding | nothing: the publisher routes, and adds a message to the stream of each queue that matches |
//! | one reader at a time | the lease `onceward:{q}:reader`, a key that runs out after [`BrokerConfig::heartbeat`] |
//! | message | an entry: the field `body`, and a field for each header (`entry.rs`) |
//! | accepted | acknowledged and deleted, so that a stream holds exactly what is still to be brought home |
//! | delivery limit | an entry handed out so often goes to the streams behind the queue's dead-letter exchange |
//!
//! Programs of others publish with `XADD onceward:{q}:stream * body '{…}'`, and any headers as further fields.
//! A second group on such a stream would miss messages, because they are deleted once ours has them; `check` says so.
//!
//! **Order.** A batch is published in transactions on one connection, the next one only after the last succeeded, so a server
//! that refuses in the middle (out of memory, say) leaves a beginning of the batch and no gaps. Reading is a script
//! that looks at the lease and reads in the same breath: a reader that was stalled while another took over is handed nothing
//! new. Each connection of a reader takes the lease anew under a higher generation, so that a command which was held up on
//! a dead connection no longer counts; and each begins with everything handed out and not accepted, oldest first.
//!
//! **Bounds.** Redis holds messages in memory. When it is full it refuses to publish (with `maxmemory-policy noeviction`), messages
//! wait in PostgreSQL, and reading goes on. What a server's settings mean for durability is said by `advise`.
//!
//! Redis 7.0 or newer, or Valkey. Cluster mode is not supported: a fan-out is one transaction over several queues. Neither is
//! Sentinel: the URL must lead to the primary. A failover to a replica can lose what was not replicated yet.
//!
//! Reading order: `publish`, then `receiver`, `session` and the scripts in `lua/`.

mod advise;
mod burial;
mod declare;
mod entry;
mod link;
mod names;
mod pool;
mod publish;
mod receiver;
mod scripts;
mod session;

use async_trait::async_trait;
use onceward_topology::Topology;
use onceward_transport::{
    Broker, BrokerConfig, BrokerError, Capabilities, Difference, Parcel, Reading, Receiver, Verdict,
};
use pool::Shared;
use std::sync::Arc;

/// Larger ones are refused: Redis copies a body several times on its way.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Redis, for one topology. Connects when it is first used.
pub struct RedisBroker {
    shared: Arc<Shared>,
}

impl RedisBroker {
    /// A bus at the configured address. Does nothing yet.
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self { shared: Arc::new(Shared::new(config, topology)) }
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
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        self.shared.unless_closed(declare::declare(&self.shared)).await
    }

    async fn check(&self) -> Result<Vec<Difference>, BrokerError> {
        self.shared.unless_closed(declare::check(&self.shared)).await
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        self.shared.unless_closed(publish::publish(&self.shared, parcels)).await
    }

    async fn open(&self, reading: Reading) -> Result<Box<dyn Receiver>, BrokerError> {
        let opened = receiver::RedisReceiver::open(self.shared.clone(), reading);
        Ok(Box::new(self.shared.unless_closed(opened).await?))
    }

    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        self.shared.unless_closed(declare::waiting(&self.shared, queue)).await
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

//! Events as Rust types.

use onceward_envelope::{Envelope, TenantId};
use onceward_topology::Topic;
use serde::{Serialize, de::DeserializeOwned};

/// A fact or command that is sent as a message.
pub trait Event: Serialize + DeserializeOwned + Send + Sync {
    /// The type with its version, which is also the `$id` of its schema: `order.placed.v1`.
    const TYPE: &'static str;

    /// The exchange that it is published to. The topology of some service must declare it.
    const EXCHANGE: &'static str;

    /// The routing key. One that starts with `tenant.<id>.` must name the tenant of the publishing transaction.
    fn routing_key(&self, tenant: &TenantId) -> String;

    /// The topic: the exchange and the routing key.
    fn topic(&self, tenant: &TenantId) -> Topic {
        Topic::new(Self::EXCHANGE, self.routing_key(tenant))
    }

    /// Messages with equal keys are handled one after the other, in the order of their commits.
    fn ordering_key(&self) -> Option<String> {
        None
    }

    /// The same key is published once. Without a key, every publish creates a separate message.
    fn idempotency_key(&self) -> Option<String> {
        None
    }

    /// The story it belongs to, if not that of the publishing transaction: see [`crate::NewMessage::correlated_by`].
    fn correlation_id(&self) -> Option<String> {
        None
    }

    /// The aggregate's type and id, for people who read the outbox.
    fn aggregate(&self) -> Option<(String, String)> {
        None
    }
}

/// A received event with its metadata.
#[derive(Clone, Debug)]
pub struct Received<'m, E> {
    /// The payload.
    pub event: E,
    /// The envelope that contained it.
    pub envelope: &'m Envelope,
    /// The number of this attempt, 1 for the first.
    pub attempt: u32,
}

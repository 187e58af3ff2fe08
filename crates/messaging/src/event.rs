//! Events as Rust types.

use onceward_envelope::{Envelope, TenantId};
use serde::{Serialize, de::DeserializeOwned};

/// A fact or command that travels as a message.
pub trait Event: Serialize + DeserializeOwned + Send + Sync {
    /// Its type with the version, which is also the `$id` of its schema: `order.placed.v1`.
    const TYPE: &'static str;

    /// `<exchange>:<routing key>`.
    fn topic(&self, tenant: &TenantId) -> String;

    /// Messages with equal keys are handled one after the other, in the order of their commits.
    fn ordering_key(&self) -> Option<String> {
        None
    }

    /// The same key is published once. Without one, every publish is a message of its own.
    fn idempotency_key(&self) -> Option<String> {
        None
    }

    /// The story it belongs to, if not that of the transaction that publishes it: see [`crate::NewMessage::correlated_by`].
    fn correlation_id(&self) -> Option<String> {
        None
    }

    /// The aggregate's type and id, for people who look into the outbox.
    fn aggregate(&self) -> Option<(String, String)> {
        None
    }
}

/// An event that arrived, with everything that came around it.
#[derive(Clone, Debug)]
pub struct Received<'m, E> {
    /// The payload.
    pub event: E,
    /// The envelope it came in.
    pub envelope: &'m Envelope,
    /// 1 for the first time.
    pub attempt: u32,
}

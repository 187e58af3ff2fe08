//! What an external bus must offer. PostgreSQL needs none of it: there, the commit publishes.
//!
//! A broker is a wire with a memory. The relay hands it parcels and waits for its word that it keeps
//! them; a receiver takes them off again, has them written down in the database, and only then lets
//! the broker forget them. Retries, delays, priorities and dead letters happen in the database, the
//! same way for every bus (`docs/decisions/0010`).

use crate::{Arrival, Parcel};
use async_trait::async_trait;
use std::time::Duration;

/// The differences between brokers that the suite which all of them pass has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It says how often it handed a message out.
    pub counts_deliveries: bool,
    /// It puts a message away by itself after the queue's delivery limit.
    pub limits_deliveries: bool,
    /// It refuses a message that the topology promises a reader, but that no queue takes.
    pub refuses_unroutable: bool,
    /// The largest body it takes; a larger one is refused.
    pub max_body_bytes: usize,
}

/// An external bus, for one topology.
#[async_trait]
pub trait Broker: Send + Sync {
    /// `rabbitmq`, `kafka`, `redis`.
    fn name(&self) -> &'static str;

    /// What it can do by itself.
    fn capabilities(&self) -> Capabilities;

    /// Makes what the topology names and the broker lacks; never deletes or changes anything. Gives what it made.
    async fn declare(&self) -> Result<Vec<String>, BrokerError>;

    /// Where the broker differs from the topology. Changes nothing.
    async fn check(&self) -> Result<Vec<Difference>, BrokerError>;

    /// Publishes in the given order, all in flight at once, and waits until the broker has answered for each.
    /// An error means that nobody knows which ones arrived: they must be published again.
    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError>;

    /// Opens a queue for reading.
    async fn open(&self, reading: Reading) -> Result<Box<dyn Receiver>, BrokerError>;

    /// How many messages the broker still holds for a queue; `None` if it cannot tell.
    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError>;

    /// Asks for any answer at all.
    async fn ping(&self) -> Result<(), BrokerError>;

    /// What an operator should know about this server, each with what to do about it.
    async fn advise(&self) -> Result<Vec<String>, BrokerError>;

    /// Ends the connections. Parcels without an answer are published again by whoever comes next.
    async fn close(&self);
}

/// Which queue is read, and how.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The queue.
    pub queue: String,
    /// Nobody else may read it, or read the same part of it, meanwhile; this keeps the order of keys.
    pub exclusive: bool,
    /// How many messages may be on their way or in hand without having been accepted.
    pub prefetch: usize,
}

/// A queue that is being read. Dropping it hands back what was not accepted.
#[async_trait]
pub trait Receiver: Send {
    /// Up to `limit` messages in the queue's order. Waits at most `most` for the first; none means that none came.
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError>;

    /// Everything handed out so far has been written down: the broker may forget it.
    async fn accept(&mut self) -> Result<(), BrokerError>;

    /// Everything handed out and not accepted is to come again.
    async fn give_back(&mut self) -> Result<(), BrokerError>;
}

/// What the broker said of a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It keeps it.
    Accepted,
    /// It does not want it, and says why.
    Refused(String),
}

/// Something on the broker that is not as the topology says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `queue q.payments.post`.
    pub what: String,
    /// What the topology says.
    pub declared: String,
    /// What the broker has.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

/// What can go wrong on the way to a broker.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// It does not answer, or not as it should; later it may.
    #[error("the bus is not available: {0}")]
    Unavailable(String),
    /// Another receiver reads the queue, and one is all there may be.
    #[error("queue \"{0}\" is being read by another process")]
    Taken(String),
    /// The broker lacks something of the topology.
    #[error("{0} is missing on the bus; run `onceward topology declare`")]
    Missing(String),
    /// The settings are wrong.
    #[error("{0}")]
    Misconfigured(String),
}

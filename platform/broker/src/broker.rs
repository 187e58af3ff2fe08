//! The interface of an external bus. PostgreSQL needs none of it: there, the commit publishes.
//!
//! A broker transports and stores messages. The relay publishes parcels and waits for the broker's confirmation; a
//! receiver reads them, has them written to the database, and only then acknowledges them. Retries, delays, priorities
//! and dead letters happen in the database, the same way for every bus (`docs/decisions/0010`).

use crate::{Arrival, Parcel, Position};
use async_trait::async_trait;
use jiff::Timestamp;
use std::time::Duration;

/// The differences between brokers that the conformance suite must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It reports how often a message was delivered.
    pub counts_deliveries: bool,
    /// It dead-letters a message on its own after the queue's delivery limit.
    pub limits_deliveries: bool,
    /// It refuses a message that the topology routes to a reader if no queue takes it.
    pub refuses_unroutable: bool,
    /// It reports when the oldest message waiting in a queue was published.
    pub reports_age: bool,
    /// The largest body that it accepts; a larger one is refused.
    pub max_body_bytes: usize,
}

/// An external bus for one topology.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns `rabbitmq`, `kafka` or `redis`.
    fn name(&self) -> &'static str;

    /// Returns what the broker can do on its own.
    fn capabilities(&self) -> Capabilities;

    /// Creates what the topology names and the broker lacks, and returns it. Never deletes or changes anything.
    async fn declare(&self) -> Result<Vec<String>, BrokerError>;

    /// Returns the differences between the broker and the topology. Changes nothing.
    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError>;

    /// Returns what [`Broker::check`] cannot compare with the topology, each with what to do. Empty if it compares
    /// everything.
    async fn unchecked(&self) -> Result<Vec<String>, BrokerError> {
        Ok(Vec::new())
    }

    /// Publishes in the given order, all in flight at once, and waits until the broker has confirmed or refused each.
    /// After an error it is unknown which parcels arrived: all must be published again.
    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError>;

    /// Opens a queue for reading.
    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError>;

    /// Returns what the broker still holds for a queue. Fails with [`BrokerError::Missing`] if it has no such queue.
    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError>;

    /// Returns the backlogs of several queues, in their order. A queue that the broker lacks has an unknown backlog.
    async fn backlogs(&self, queues: &[String]) -> Result<Vec<Backlog>, BrokerError> {
        let mut backlogs = Vec::with_capacity(queues.len());
        for queue in queues {
            backlogs.push(match self.backlog(queue).await {
                Err(BrokerError::Missing(_)) => Backlog::default(),
                backlog => backlog?,
            });
        }
        Ok(backlogs)
    }

    /// Returns how many messages the broker still holds for a queue; `None` if the broker cannot report it.
    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        Ok(self.backlog(queue).await?.waiting)
    }

    /// Checks that the broker responds.
    async fn ping(&self) -> Result<(), BrokerError>;

    /// Returns what an operator should know about this server, each with what to do.
    async fn advise(&self) -> Result<Vec<String>, BrokerError>;

    /// Closes the connections. Unconfirmed parcels are published again by the next relay.
    async fn close(&self);
}

/// The messages that a broker holds for one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of waiting messages; `None` if the broker cannot report it.
    pub waiting: Option<u64>,
    /// When the oldest of them was published. `None` if none waits, or if the broker cannot report it
    /// ([`Capabilities::reports_age`]).
    pub oldest_at: Option<Timestamp>,
}

/// The queue to read, and how.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The queue.
    pub queue: String,
    /// No other receiver may read the queue, or the same part of it, meanwhile; this keeps the order of keys.
    pub exclusive: bool,
    /// How many messages may be in flight without having been accepted.
    pub prefetch: usize,
}

/// An open queue. Dropping it returns the messages that were not accepted.
#[async_trait]
pub trait Receiver: Send {
    /// Returns up to `limit` messages in the queue's order. Waits at most `most` for the first; empty if none arrived.
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError>;

    /// Acknowledges everything received so far, which has been written to the database: the broker may forget it.
    async fn accept(&mut self) -> Result<(), BrokerError>;

    /// Returns the [`Position`]s after the messages received so far, for brokers whose readers keep them. The caller
    /// writes them in the transaction in which it writes the messages; [`Receiver::accept`] writes those that were not
    /// taken.
    fn take_positions(&mut self) -> Vec<Position> {
        Vec::new()
    }

    /// Puts all messages received and not accepted back into the queue, to be delivered again.
    async fn return_unaccepted(&mut self) -> Result<(), BrokerError>;
}

/// The broker's response to a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The broker has stored it.
    Accepted,
    /// The broker refused it, for this reason.
    Refused(String),
}

/// A difference between the broker and the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyDifference {
    /// The object, such as `queue q.payments.post`.
    pub what: String,
    /// The topology's declaration.
    pub declared: String,
    /// The broker's actual state.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

/// An error in communicating with a broker.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker does not respond, or not correctly; a retry may succeed.
    #[error("the bus is not available: {0}")]
    Unavailable(String),
    /// Another receiver reads the queue, which allows only one.
    #[error("another process reads the queue \"{0}\"")]
    Taken(String),
    /// The broker lacks something that the topology declares.
    #[error("{0} is missing on the bus; run `onceward topology declare`")]
    Missing(String),
    /// The settings are invalid.
    #[error("{0}")]
    Misconfigured(String),
}

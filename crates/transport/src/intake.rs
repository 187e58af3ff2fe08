//! Reading from a bus.

use crate::{Delivery, Settlement, TransportError};
use async_trait::async_trait;
use onceward_db::Tx;
use std::time::Duration;

/// Who reads what, and how.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The consumer's name; it appears in dead letters and metrics.
    pub consumer: String,
    /// The queue.
    pub queue: String,
    /// Keep the order of keys. Without it, a waiting message holds up nobody.
    pub ordered: bool,
    /// How many turns or leases will be asked for at the same time.
    pub concurrency: usize,
    /// Count how often a turn is begun, so that a message that kills its workers is found and isolated.
    pub isolate_killers: bool,
}

/// A bus.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Opens a queue for a consumer.
    async fn open(&self, subscription: Subscription) -> Result<Box<dyn Intake>, TransportError>;
}

/// One queue, read by one consumer, possibly by several tasks at once.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Takes up to `limit` messages, to be handled in the returned turn's transaction. `None`: nothing to do now.
    async fn take(&self, limit: usize) -> Result<Option<Box<dyn Turn>>, TransportError>;

    /// Takes up to `limit` messages that nobody else is given for `lease`, unless it is not extended in time.
    async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<Leased>, TransportError>;

    /// Extends leases; gives back those that are still held.
    async fn extend(&self, leases: &[LeaseId], by: Duration) -> Result<Vec<LeaseId>, TransportError>;

    /// Settles a leased message within `tx`. `false`: the lease was lost, so `tx` must be rolled back.
    async fn settle_lease(&self, tx: &mut Tx, leased: &Leased, settlement: Settlement) -> Result<bool, TransportError>;

    /// Returns when there may be something to take, or after `most`.
    async fn wait(&self, most: Duration);

    /// A settled lease was committed: what stood behind it can be taken.
    fn nudge(&self);
}

/// Messages and the transaction they are handled in. Dropping it hands them all back.
#[async_trait]
pub trait Turn: Send {
    /// The messages, in the order in which they are to be handled.
    fn deliveries(&self) -> &[Delivery];
    /// The transaction.
    fn tx(&mut self) -> &mut Tx;
    /// Both, for a handler that needs a message and the transaction at once.
    fn split(&mut self) -> (&[Delivery], &mut Tx);
    /// Settles each delivery and commits. One settlement for each delivery, in their order.
    async fn settle(self: Box<Self>, settlements: Vec<Settlement>) -> Result<(), TransportError>;
}

/// Names a lease; the number grows with every new lease of the same message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The message put aside.
    pub id: i64,
    /// Which lease of it.
    pub number: i64,
}

/// A message that one worker holds for a time.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The lease.
    pub lease: LeaseId,
    /// The message.
    pub delivery: Delivery,
}

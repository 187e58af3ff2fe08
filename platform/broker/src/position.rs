//! The positions of a queue's readers, stored in the database with the messages that landed.
//!
//! A broker that keeps messages after they were read, such as a log, stores a position for each group of readers. It
//! may lose that position and then deliver everything again, including messages that the inbox has forgotten. The
//! position in the database is written in the same commit as the messages, so it is never behind what has landed.

use crate::BrokerError;
use async_trait::async_trait;

/// A position in one partition of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The queue, by its name on the broker.
    pub queue: String,
    /// The log, by its name on the broker.
    pub source: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the next message to read.
    pub next_offset: i64,
    /// The broker's timestamp of the message before `next_offset`, in milliseconds since 1970. It identifies a log that
    /// was deleted and created again under the same name. 0 if no such message exists.
    pub last_ms: i64,
}

/// The store of positions.
#[async_trait]
pub trait PositionStore: Send + Sync {
    /// Returns all positions of `queues`, which are named as on the broker.
    async fn load(&self, queues: &[String]) -> Result<Vec<Position>, BrokerError>;

    /// Writes positions in a transaction of their own. A position never moves back, unless `replace` is set because the
    /// log is a different one.
    async fn save(&self, positions: &[Position], replace: bool) -> Result<(), BrokerError>;
}

//! How full the queues are, at a cost that does not grow with them.

use crate::store;
use onceward_db::{Db, DbError};

/// One queue's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// Messages waiting; exact up to [`SAMPLE`] a lane, projected beyond.
    pub depth: i64,
    /// Age of the oldest of them.
    pub lag_seconds: f64,
    /// Messages put aside (retries, delays, leases), at most [`SAMPLE`].
    pub deferred: i64,
    /// Dead letters nobody has dealt with, at most [`SAMPLE`].
    pub dead: i64,
}

/// How many messages are counted one by one.
pub const SAMPLE: i32 = 1_000;

/// The figures of every queue.
pub async fn queue_stats(db: &Db) -> Result<Vec<QueueStats>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(store::QUEUE_STATS, &[&SAMPLE]).await?;
    Ok(rows
        .iter()
        .map(|row| QueueStats {
            queue: row.get(0),
            depth: row.get(1),
            lag_seconds: row.get(2),
            deferred: row.get(3),
            dead: row.get(4),
        })
        .collect())
}

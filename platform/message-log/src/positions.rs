//! The positions of readers on an external bus, stored in the database.

use async_trait::async_trait;
use onceward_broker::{BrokerError, Position, PositionStore};
use onceward_db::{Db, DbError};
use serde_json::{Value, json};

// In `migrations/0012_land.sql`:
const POSITIONS: &str = "SELECT queue, source, partition, next_offset, last_ms FROM onceward.positions($1)";
pub(crate) const SAVE_POSITIONS: &str = "SELECT onceward.save_positions($1, $2)";

/// Positions stored in the table `onceward.bus_position`.
#[derive(Clone)]
pub struct PostgresPositionStore(Db);

impl PostgresPositionStore {
    /// Creates the store on `db`.
    pub fn new(db: Db) -> Self {
        Self(db)
    }
}

#[async_trait]
impl PositionStore for PostgresPositionStore {
    async fn load(&self, queues: &[String]) -> Result<Vec<Position>, BrokerError> {
        let rows = async { self.0.connection().await?.query(POSITIONS, &[&queues]).await };
        let rows = rows.await.map_err(unavailable)?;
        let position = |row: &onceward_db::Row| Position {
            queue: row.get(0),
            source: row.get(1),
            partition: row.get(2),
            next_offset: row.get(3),
            last_ms: row.get(4),
        };
        Ok(rows.iter().map(position).collect())
    }

    async fn save(&self, positions: &[Position], replace: bool) -> Result<(), BrokerError> {
        let saved = async { self.0.connection().await?.query(SAVE_POSITIONS, &[&to_json(positions), &replace]).await };
        saved.await.map(drop).map_err(unavailable)
    }
}

/// Converts positions to the format of `onceward.save_positions`.
pub(crate) fn to_json(positions: &[Position]) -> Value {
    positions
        .iter()
        .map(|position| {
            json!({"queue": position.queue, "source": position.source, "partition": position.partition,
                   "next_offset": position.next_offset, "last_ms": position.last_ms})
        })
        .collect()
}

fn unavailable(error: DbError) -> BrokerError {
    BrokerError::Unavailable(format!("the positions of readers are stored in the database: {error}"))
}

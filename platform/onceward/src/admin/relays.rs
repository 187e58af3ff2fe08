//! The bus that the database is set up for, and what its relays report.

use crate::store;
use jiff::Timestamp;
use onceward_broker::BusKind;
use onceward_db::{Db, DbError};

/// The last report of one relay.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayState {
    /// Its name: process and start.
    pub relay: String,
    /// The bus it publishes to.
    pub bus: String,
    /// Whether it reaches the bus.
    pub up: bool,
    /// Since when `up` has had this value.
    pub since: Timestamp,
    /// Why it does not reach the bus.
    pub last_error: Option<String>,
    /// Whether it has reported recently, by the database's clock.
    pub is_alive: bool,
}

/// Returns the bus that the database is set up for.
pub async fn recorded_bus(db: &Db) -> Result<String, DbError> {
    Ok(db.connection().await?.query(store::BUS, &[]).await?[0].get(0))
}

/// Returns the last report of every relay.
pub async fn relays(db: &Db) -> Result<Vec<RelayState>, DbError> {
    let rows = db.connection().await?.query(store::RELAYS, &[]).await?;
    Ok(rows
        .iter()
        .map(|row| RelayState {
            relay: row.get(0),
            bus: row.get(1),
            up: row.get(2),
            since: row.get(3),
            last_error: row.get(4),
            is_alive: row.get(5),
        })
        .collect())
}

/// Fails unless the settings and the database name the same bus; otherwise messages wait for a relay that never runs.
pub async fn require_same_bus(db: &Db, configured: BusKind) -> Result<(), String> {
    let recorded = recorded_bus(db).await.map_err(|error| error.to_string())?;
    if recorded == configured.name() {
        return Ok(());
    }
    Err(format!(
        "the database is set up for {recorded}, but the settings name {}; set BROKER_URL to that bus, or run `onceward migrate` to switch",
        configured.name()
    ))
}

/// Fails unless a relay is running and all running relays reach the bus.
pub async fn require_healthy_relays(db: &Db) -> Result<(), String> {
    let mut alive = relays(db).await.map_err(|error| error.to_string())?;
    alive.retain(|relay| relay.is_alive);
    if alive.is_empty() {
        return Err("no relay is running, so messages wait in the outbox; start `onceward serve --role relay`".into());
    }
    match alive.iter().find(|relay| !relay.up) {
        None => Ok(()),
        Some(relay) => Err(format!(
            "{} has not been reachable since {}, so messages wait in the outbox: {}",
            relay.bus,
            relay.since,
            relay.last_error.as_deref().unwrap_or("no reason given")
        )),
    }
}

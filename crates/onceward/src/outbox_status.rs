//! How the outbox is doing: which bus the database is set up for, and what its relays say of it.

use crate::store;
use jiff::Timestamp;
use onceward_db::{Db, DbError};
use onceward_transport::BusKind;

/// A relay that has not spoken for this long is gone.
const SILENT_S: i64 = 30;

/// One relay's word.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayState {
    /// Its name: process and start.
    pub relay: String,
    /// The bus it carries to.
    pub bus: String,
    /// It reaches the bus.
    pub up: bool,
    /// Since when that is so.
    pub since: Timestamp,
    /// Why it does not.
    pub last_error: Option<String>,
    /// When it last spoke.
    pub seen_at: Timestamp,
}

impl RelayState {
    /// It has spoken lately.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        now.as_second() - self.seen_at.as_second() <= SILENT_S
    }
}

/// The bus that the database is set up for.
pub async fn bus(db: &Db) -> Result<String, DbError> {
    Ok(db.connection().await?.query(store::BUS, &[]).await?[0].get(0))
}

/// What every relay said last.
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
            seen_at: row.get(5),
        })
        .collect())
}

/// The settings and the database name the same bus, or else messages would wait for a relay that never comes.
pub async fn same_bus(db: &Db, ours: BusKind) -> Result<(), String> {
    let theirs = bus(db).await.map_err(|error| error.to_string())?;
    if theirs == ours.name() {
        return Ok(());
    }
    Err(format!(
        "the database is set up for {theirs}, the settings name {}; set BROKER_URL, or run `onceward migrate` to switch",
        ours.name()
    ))
}

/// Some relay runs, and all of them reach the bus.
pub async fn relays_are_well(db: &Db) -> Result<(), String> {
    let now = Timestamp::now();
    let mut alive = relays(db).await.map_err(|error| error.to_string())?;
    alive.retain(|relay| relay.is_alive(now));
    if alive.is_empty() {
        return Err("no relay runs, so messages wait in the outbox; start `onceward serve --role relay`".into());
    }
    match alive.iter().find(|relay| !relay.up) {
        None => Ok(()),
        Some(relay) => Err(format!(
            "{} is not reached since {}, so messages wait in the outbox: {}",
            relay.bus,
            relay.since,
            relay.last_error.as_deref().unwrap_or("no reason given")
        )),
    }
}

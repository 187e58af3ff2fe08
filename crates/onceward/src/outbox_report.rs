//! How the outbox is doing, in one look: what waits, why, and who carries it.

use crate::outbox_status::{self, RelayState};
use jiff::Timestamp;
use onceward_db::{Db, DbError};
use onceward_transport::BusKind;
use onceward_transport_postgres::{
    outbox::{self, Aside},
    routes::OUTBOX,
    stats,
};
use serde::Serialize;

/// The outbox at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxReport {
    /// The bus that the database is set up for,
    pub bus: String,
    /// and the one that the settings name.
    pub settings: &'static str,
    /// What each relay said last.
    pub relays: Vec<RelayReport>,
    /// Messages that have not been handed over.
    pub unpublished: i64,
    /// Age of the oldest of them.
    pub oldest_seconds: f64,
    /// What the bus refused and is offered again later.
    pub refused: i64,
    /// When the next of it is due.
    pub next_due_ms: Option<i64>,
    /// What the bus said of one.
    pub last_refusal: Option<String>,
    /// Messages that were given up.
    pub dead: i64,
}

/// One relay's word.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayReport {
    /// Its name.
    pub relay: String,
    /// It has spoken lately.
    pub alive: bool,
    /// It reaches the bus.
    pub up: bool,
    /// Since when that is so.
    pub since: Timestamp,
    /// Why it does not.
    pub last_error: Option<String>,
}

impl RelayReport {
    fn of(state: RelayState, now: Timestamp) -> Self {
        let alive = state.is_alive(now);
        Self { relay: state.relay, alive, up: state.up, since: state.since, last_error: state.last_error }
    }
}

impl OutboxReport {
    /// Reads it all.
    pub async fn read(db: &Db, settings: BusKind) -> Result<Self, DbError> {
        let now = Timestamp::now();
        let relays = outbox_status::relays(db).await?;
        let queues = stats::queue_stats(db).await?;
        let lanes = queues.iter().find(|queue| queue.queue == OUTBOX);
        let Aside { put_aside, oldest_seconds, refused, next_due_ms, last_error } = outbox::aside(db).await?;
        Ok(Self {
            bus: outbox_status::bus(db).await?,
            settings: settings.name(),
            relays: relays.into_iter().map(|relay| RelayReport::of(relay, now)).collect(),
            unpublished: lanes.map_or(0, |lanes| lanes.depth) + put_aside,
            oldest_seconds: lanes.map_or(0.0, |lanes| lanes.lag_seconds).max(oldest_seconds),
            refused,
            next_due_ms,
            last_refusal: last_error,
            dead: lanes.map_or(0, |lanes| lanes.dead),
        })
    }

    /// Why messages wait that should not; `None` when all is well.
    pub fn trouble(&self) -> Option<String> {
        if self.unpublished == 0 || self.relays.iter().any(|relay| relay.alive && relay.up) {
            return None;
        }
        let Some(down) = self.relays.iter().find(|relay| relay.alive) else {
            let advice = match self.bus == BusKind::Postgres.name() {
                true => {
                    "they were published for another bus; run `onceward migrate` and a relay with its BROKER_URL to carry them"
                }
                false => "start `onceward serve --role relay`",
            };
            return Some(format!("{} messages wait and no relay runs; {advice}", self.unpublished));
        };
        let why = down.last_error.as_deref().unwrap_or("no reason given");
        Some(format!(
            "{} messages wait because {} is not reached since {}: {why}",
            self.unpublished, self.bus, down.since
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(unpublished: i64, relays: &[(bool, bool)]) -> OutboxReport {
        let relay = |(alive, up): &(bool, bool)| RelayReport {
            relay: "r".into(),
            alive: *alive,
            up: *up,
            since: Timestamp::UNIX_EPOCH,
            last_error: None,
        };
        OutboxReport {
            bus: "redis".into(),
            settings: "redis",
            relays: relays.iter().map(relay).collect(),
            unpublished,
            oldest_seconds: 0.0,
            refused: 0,
            next_due_ms: None,
            last_refusal: None,
            dead: 0,
        }
    }

    #[test]
    fn waiting_is_trouble_only_while_nobody_carries() {
        assert_eq!(report(0, &[]).trouble(), None);
        assert_eq!(report(5, &[(true, false), (true, true)]).trouble(), None);
        assert!(report(5, &[(false, true)]).trouble().is_some_and(|said| said.contains("no relay runs")));
        assert!(report(5, &[(true, false)]).trouble().is_some_and(|said| said.contains("not reached")));
    }
}

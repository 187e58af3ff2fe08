//! The state of the outbox: the messages that wait, why they wait, and the relays that publish them.

use jiff::Timestamp;
use onceward::{
    Platform,
    admin::relays::{self, RelayState},
};
use onceward_broker::BusKind;
use onceward_db::{Db, DbError};
use onceward_message_log::{
    outbox::{self, DeferredOutbox},
    routes::OUTBOX,
    stats,
    unrouted::{self, UnroutedMessages},
};
use serde::Serialize;

/// The outbox at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxReport {
    /// The bus that the database is set up for.
    pub bus: String,
    /// The bus that the settings name.
    pub settings: &'static str,
    /// The last report of each running relay; if none is running, of those that reported recently.
    pub relays: Vec<RelayReport>,
    /// Messages that have not been published to the bus.
    pub unpublished: i64,
    /// Whether more exist than were counted.
    pub unpublished_is_more: bool,
    /// Age of the oldest of them.
    pub oldest_seconds: f64,
    /// Messages that the bus refused and that will be retried.
    pub refused: i64,
    /// In how many milliseconds the next of them is due.
    pub next_due_ms: Option<i64>,
    /// The bus's reason for one refusal.
    pub last_refusal: Option<String>,
    /// Messages that were given up.
    pub dead: i64,
    /// Whether more exist than were counted.
    pub dead_is_more: bool,
    /// Messages to which no queue was bound when they were published, by type.
    pub unrouted: Vec<UnroutedMessages>,
    /// Whether more exist than were counted.
    pub unrouted_is_more: bool,
    /// The same for facts without a subscriber, which are intentionally not routed.
    pub unsubscribed: Vec<UnroutedMessages>,
    /// Whether more exist than were counted.
    pub unsubscribed_is_more: bool,
}

/// The last report of one relay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayReport {
    /// Its name.
    pub relay: String,
    /// Whether it has reported recently.
    pub alive: bool,
    /// Whether it reaches the bus.
    pub up: bool,
    /// Since when `up` has had this value.
    pub since: Timestamp,
    /// Why it does not reach the bus.
    pub last_error: Option<String>,
}

impl RelayReport {
    fn new(state: RelayState) -> Self {
        Self {
            relay: state.relay,
            alive: state.is_alive,
            up: state.up,
            since: state.since,
            last_error: state.last_error,
        }
    }
}

impl OutboxReport {
    /// Loads the report.
    pub async fn load(db: &Db, settings: BusKind, platform: &Platform) -> Result<Self, DbError> {
        let relays = relays::relays(db).await?.into_iter().map(RelayReport::new).collect();
        let queues = stats::queue_stats(db).await?;
        let lanes = queues.iter().find(|queue| queue.queue == OUTBOX);
        let DeferredOutbox { deferred, is_more, oldest_seconds, refused, next_due_ms, last_error } =
            outbox::deferred(db).await?;
        let (unsubscribed, unrouted): (Vec<_>, Vec<_>) =
            unrouted::unrouted(db).await?.into_iter().partition(|one| platform.is_unsubscribed(&one.event_type));
        Ok(Self {
            bus: relays::recorded_bus(db).await?,
            settings: settings.name(),
            relays: current_relays(relays),
            unpublished: lanes.map_or(0, |lanes| lanes.depth) + deferred,
            unpublished_is_more: is_more,
            oldest_seconds: lanes.map_or(0.0, |lanes| lanes.lag_seconds).max(oldest_seconds),
            refused,
            next_due_ms,
            last_refusal: last_error,
            dead: lanes.map_or(0, |lanes| lanes.dead),
            dead_is_more: lanes.is_some_and(|lanes| lanes.dead_is_more),
            unrouted_is_more: unrouted::total(&unrouted).1,
            unrouted,
            unsubscribed_is_more: unrouted::total(&unsubscribed).1,
            unsubscribed,
        })
    }

    /// Returns why messages wait although they should not; `None` if all is well.
    pub fn problem(&self) -> Option<String> {
        if self.unpublished == 0 || self.relays.iter().any(|relay| relay.alive && relay.up) {
            return None;
        }
        let Some(down) = self.relays.iter().find(|relay| relay.alive) else {
            let advice = match self.bus == BusKind::Postgres.name() {
                true => {
                    "they were written for another bus; run `onceward migrate` and a relay with the BROKER_URL of that bus"
                }
                false => "start `onceward serve --role relay`",
            };
            return Some(format!("{} messages wait and no relay is running; {advice}", self.unpublished));
        };
        let why = down.last_error.as_deref().unwrap_or("no reason given");
        Some(format!(
            "{} messages wait because {} has not been reachable since {}: {why}",
            self.unpublished, self.bus, down.since
        ))
    }
}

/// While a relay is running, others without a recent report were killed and replaced, and are left out.
fn current_relays(mut relays: Vec<RelayReport>) -> Vec<RelayReport> {
    if relays.iter().any(|relay| relay.alive) {
        relays.retain(|relay| relay.alive);
    }
    relays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killed_relays_are_shown_only_while_no_other_relay_is_alive() {
        let shown = |relays: &[(bool, bool)]| current_relays(report(0, relays).relays).len();
        assert_eq!(shown(&[(false, true), (true, true), (false, false)]), 1);
        assert_eq!(shown(&[(false, true), (false, false)]), 2);
    }

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
            unpublished_is_more: false,
            oldest_seconds: 0.0,
            refused: 0,
            next_due_ms: None,
            last_refusal: None,
            dead: 0,
            dead_is_more: false,
            unrouted: Vec::new(),
            unrouted_is_more: false,
            unsubscribed: Vec::new(),
            unsubscribed_is_more: false,
        }
    }

    #[test]
    fn waiting_is_a_problem_only_while_no_relay_publishes() {
        assert_eq!(report(0, &[]).problem(), None);
        assert_eq!(report(5, &[(true, false), (true, true)]).problem(), None);
        assert!(report(5, &[(false, true)]).problem().is_some_and(|problem| problem.contains("no relay is running")));
        assert!(report(5, &[(true, false)]).problem().is_some_and(|problem| problem.contains("not been reachable")));
    }
}

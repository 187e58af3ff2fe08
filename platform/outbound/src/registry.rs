//! The destinations of a process, with the state of the calls to each.

use crate::{
    Destination, OutboundCall, OutboundError, RejectReason, Rejected, destination_state::DestinationState, measure,
    store,
};
use onceward_db::Db;
use onceward_envelope::fingerprint_hex;
use onceward_resilience::{SharedBreaker, SharedPermission, SharedPhase};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// A destination that was not called for this long is not used any more.
const USED_LATELY_MS: u64 = 60_000;

/// The destinations that a process calls, cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    pub(crate) inner: Arc<OutboundInner>,
}

pub(crate) struct OutboundInner {
    pub process: String,
    pub db: Option<Db>,
    pub view: Mutex<SharedView>,
    destinations: HashMap<String, Arc<DestinationState>>,
    started: Instant,
}

/// What this process last read about shared breakers. Only those that are not closed are in it.
#[derive(Default)]
pub(crate) struct SharedView {
    pub breakers: HashMap<(String, String), SharedBreaker>,
    /// The database's time and this process's time at the same moment.
    pub clocks: Option<(u64, u64)>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.destinations.keys()).finish()
    }
}

impl Outbound {
    /// Creates the registry of a process. Of destinations with the same name the last one counts. Without a database each
    /// process decides for itself.
    pub fn new(destinations: impl IntoIterator<Item = Destination>, db: Option<Db>) -> Self {
        let states = destinations
            .into_iter()
            .map(|destination| (destination.name.clone(), Arc::new(DestinationState::new(destination))));
        let inner = OutboundInner {
            process: Uuid::now_v7().simple().to_string(),
            db,
            view: Mutex::default(),
            destinations: states.collect(),
            started: Instant::now(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Prepares a call to a destination.
    pub fn call(&self, destination: &str) -> Result<OutboundCall, OutboundError> {
        let unknown = || OutboundError::UnknownDestination(destination.to_owned());
        let state = self.inner.destinations.get(destination).ok_or_else(unknown)?;
        state.record_use(self.inner.now_ms());
        Ok(OutboundCall::new(self.inner.clone(), state.clone()))
    }

    /// Returns whether nothing can be called at a destination: the breakers of all credentials that were used are open.
    pub fn is_open(&self, destination: &str) -> bool {
        let Some(state) = self.inner.destinations.get(destination) else { return false };
        let is_shared_open = |credential: &str| {
            let shared = self.inner.shared(destination, credential);
            shared.is_some_and(|(breaker, _)| breaker.phase != SharedPhase::Watched)
        };
        let breakers = state.breakers.lock();
        let mut open = breakers.iter().map(|(credential, own)| !own.breaker.is_closed() || is_shared_open(credential));
        !breakers.is_empty() && open.all(|is_open| is_open)
    }

    /// Returns why the breaker of a destination and credential would reject a call now; `None` if it would allow one. Asking
    /// changes nothing, so that a caller with many destinations can pass over those that wait.
    pub fn rejection(&self, destination: &str, credential: &str) -> Option<Rejected> {
        let state = self.inner.destinations.get(destination)?;
        let credential = digest(destination, credential);
        let shared = self.inner.shared(destination, &credential);
        let permission =
            shared.as_ref().map(|(breaker, now_ms)| breaker.permission(&state.destination.breaker, *now_ms));
        let (after_ms, why) = match permission {
            Some(SharedPermission::ClaimProbe) => return None,
            Some(SharedPermission::Reject { retry_after_ms }) => {
                let is_isolated = shared.is_some_and(|(breaker, _)| breaker.is_isolated());
                (retry_after_ms, if is_isolated { RejectReason::Isolated } else { RejectReason::BreakerOpen })
            }
            Some(SharedPermission::Own) | None => {
                (state.own_rejection_ms(&credential, self.inner.now_ms())?, RejectReason::BreakerOpen)
            }
        };
        Some(Rejected { after: Duration::from_millis(after_ms), why })
    }

    /// Returns how many processes call a destination, as far as this one knows; at least 1.
    pub fn live_processes(&self, destination: &str) -> usize {
        self.inner.destinations.get(destination).map_or(1, |state| state.live())
    }

    /// Returns why more callers of a destination could not do more now.
    pub fn blocked_by(&self, destination: &str) -> Option<&'static str> {
        let state = self.inner.destinations.get(destination)?;
        if self.is_open(destination) {
            Some("the breaker is open")
        } else if state.bulkhead.is_full() {
            Some("the bulkhead is full")
        } else if state.is_budget_empty(self.inner.now_ms()) {
            Some("the retry budget is empty")
        } else {
            None
        }
    }

    /// Returns how many calls to a destination this process makes at the same time at most.
    pub fn limit(&self, destination: &str) -> Option<usize> {
        Some(self.inner.destinations.get(destination)?.bulkhead.limit())
    }
}

impl OutboundInner {
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the names of the destinations that were called lately. Only a process that calls has an opinion about a
    /// destination, so only such a process counts for the quorum.
    pub(crate) fn used_destinations(&self) -> Vec<String> {
        let oldest_ms = self.now_ms().saturating_sub(USED_LATELY_MS);
        let mut used: Vec<String> = self
            .destinations
            .iter()
            .filter(|(_, state)| state.used_at_ms() > oldest_ms)
            .map(|(name, _)| name.clone())
            .collect();
        used.sort_unstable();
        used
    }

    pub(crate) fn has_destinations(&self) -> bool {
        !self.destinations.is_empty()
    }

    /// Replaces the view by what was read from the database.
    pub(crate) fn observe(&self, rows: Vec<store::BreakerRow>) {
        let mut view = self.view.lock();
        if let Some(row) = rows.first() {
            view.clocks = Some((row.now_ms, self.now_ms()));
        }
        let breakers = rows.into_iter().map(|row| ((row.destination, row.credential), row.breaker));
        view.breakers = breakers.collect();
    }

    /// Replaces what is known about one breaker. Its cost does not grow with the number of the others.
    pub(crate) fn observe_one(&self, row: store::BreakerRow) {
        let mut view = self.view.lock();
        let key = (row.destination, row.credential);
        if row.breaker.is_idle() {
            view.breakers.remove(&key);
        } else {
            view.clocks = Some((row.now_ms, self.now_ms()));
            view.breakers.insert(key, row.breaker);
        }
    }

    /// Remembers how many processes call each destination.
    pub(crate) fn observe_live(&self, live: Vec<(String, usize)>) {
        for (destination, processes) in live {
            if let Some(state) = self.destinations.get(&destination) {
                state.set_live(processes);
            }
        }
    }

    /// Reports the breakers of every destination as metrics. `seconds` is the time since the last report.
    pub(crate) fn report_breakers(&self, seconds: u64) {
        for (name, state) in &self.destinations {
            let shared: HashMap<String, SharedPhase> = {
                let view = self.view.lock();
                let own = view.breakers.iter().filter(|((destination, _), _)| destination == name);
                own.map(|((_, credential), breaker)| (credential.clone(), breaker.phase.clone())).collect()
            };
            measure::breakers(name, state.count_breakers(&shared), seconds);
        }
    }

    /// Returns what all processes agreed on, and the database's time, if it is not simply closed.
    pub(crate) fn shared(&self, destination: &str, credential: &str) -> Option<(SharedBreaker, u64)> {
        let view = self.view.lock();
        let breaker = view.breakers.get(&(destination.to_owned(), credential.to_owned()))?.clone();
        let (database_ms, own_ms) = view.clocks?;
        Some((breaker, database_ms + self.now_ms().saturating_sub(own_ms)))
    }
}

/// Returns the digest under which a credential is remembered. The credential itself is stored nowhere.
pub(crate) fn digest(destination: &str, credential: &str) -> String {
    if credential.is_empty() { String::new() } else { fingerprint_hex(format!("{destination}\0{credential}")) }
}

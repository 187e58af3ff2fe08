//! The destinations of a process, with the state of the calls to each.

use crate::{Destination, OutboundCall, OutboundError, store};
use onceward_db::Db;
use onceward_envelope::fingerprint_hex;
use onceward_resilience::{Breaker, BudgetState, Bulkhead, SharedBreaker, SharedPhase};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use uuid::Uuid;

/// The most credentials of one destination that a process remembers.
const MAX_CREDENTIALS: usize = 10_000;

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

pub(crate) struct DestinationState {
    pub destination: Destination,
    pub bulkhead: Bulkhead,
    pub budget: Mutex<BudgetState>,
    /// When this process last called it; 0 if it never did.
    used_at_ms: AtomicU64,
    breakers: Mutex<HashMap<String, OwnBreaker>>,
}

/// The breaker of this process for one credential.
pub(crate) struct OwnBreaker {
    pub breaker: Breaker,
    /// Whether all processes had stopped when this one looked last.
    pub saw_open: bool,
    used_at_ms: u64,
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
        let states = destinations.into_iter().map(|destination| {
            let state = DestinationState {
                bulkhead: Bulkhead::new(destination.bulkhead),
                budget: Mutex::new(BudgetState::new(destination.budget)),
                used_at_ms: AtomicU64::new(0),
                breakers: Mutex::default(),
                destination,
            };
            (state.destination.name.clone(), Arc::new(state))
        });
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
        state.used_at_ms.store(self.inner.now_ms().max(1), Ordering::Relaxed);
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

    /// Returns why more callers of a destination could not do more now.
    pub fn blocked_by(&self, destination: &str) -> Option<&'static str> {
        let state = self.inner.destinations.get(destination)?;
        if self.is_open(destination) {
            Some("the breaker is open")
        } else if state.bulkhead.is_full() {
            Some("the bulkhead is full")
        } else if state.budget.lock().balance(self.inner.now_ms()) < 1.0 {
            Some("the retry budget is empty")
        } else {
            None
        }
    }

    /// Returns how many calls to a destination this process makes at the same time at most.
    pub fn limit(&self, destination: &str) -> Option<usize> {
        Some(self.inner.destinations.get(destination)?.destination.bulkhead.limit)
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
            .filter(|(_, state)| state.used_at_ms.load(Ordering::Relaxed) > oldest_ms)
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

    /// Returns what all processes agreed on, and the database's time, if it is not simply closed.
    pub(crate) fn shared(&self, destination: &str, credential: &str) -> Option<(SharedBreaker, u64)> {
        let view = self.view.lock();
        let breaker = view.breakers.get(&(destination.to_owned(), credential.to_owned()))?.clone();
        let (database_ms, own_ms) = view.clocks?;
        Some((breaker, database_ms + self.now_ms().saturating_sub(own_ms)))
    }
}

impl DestinationState {
    /// Runs `work` with the breaker of a credential. Breakers that were not used for the longest time are forgotten when
    /// there are too many; one that is open is not forgotten.
    pub(crate) fn with_breaker<T>(&self, credential: &str, now_ms: u64, work: impl FnOnce(&mut OwnBreaker) -> T) -> T {
        let mut breakers = self.breakers.lock();
        if breakers.len() >= MAX_CREDENTIALS && !breakers.contains_key(credential) {
            let mut idle: Vec<u64> =
                breakers.values().filter(|own| own.breaker.is_closed()).map(|own| own.used_at_ms).collect();
            idle.sort_unstable();
            if let Some(&median_ms) = idle.get(idle.len() / 2) {
                breakers.retain(|_, own| !own.breaker.is_closed() || own.used_at_ms > median_ms);
            }
        }
        let new =
            || OwnBreaker { breaker: Breaker::new(self.destination.breaker), saw_open: false, used_at_ms: now_ms };
        let own = breakers.entry(credential.to_owned()).or_insert_with(new);
        own.used_at_ms = now_ms;
        work(own)
    }
}

/// Returns the digest under which a credential is remembered. The credential itself is stored nowhere.
pub(crate) fn digest(destination: &str, credential: &str) -> String {
    if credential.is_empty() { String::new() } else { fingerprint_hex(format!("{destination}\0{credential}")) }
}

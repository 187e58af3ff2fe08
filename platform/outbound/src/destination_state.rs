//! The state of a process's calls to one destination: bulkhead, retry budget, and a breaker per credential.

use crate::{Destination, measure::BreakerCounts};
use onceward_resilience::{Breaker, BreakerPhase, BudgetState, Bulkhead, SharedPhase};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// The most credentials of one destination that a process remembers.
const MAX_CREDENTIALS: usize = 10_000;

pub(crate) struct DestinationState {
    pub destination: Destination,
    pub bulkhead: Bulkhead,
    pub breakers: Mutex<HashMap<String, OwnBreaker>>,
    budget: Mutex<BudgetState>,
    /// The processes that call it, this one included.
    live: AtomicUsize,
    /// When this process last called it; 0 if it never did.
    used_at_ms: AtomicU64,
}

/// The breaker of this process for one credential.
pub(crate) struct OwnBreaker {
    pub breaker: Breaker,
    /// Whether all processes had stopped when this one looked last.
    pub saw_open: bool,
    /// The retry budget, if every credential has its own.
    budget: BudgetState,
    used_at_ms: u64,
}

impl DestinationState {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            bulkhead: Bulkhead::new(destination.bulkhead),
            budget: Mutex::new(BudgetState::new(destination.budget)),
            live: AtomicUsize::new(1),
            used_at_ms: AtomicU64::new(0),
            breakers: Mutex::default(),
            destination,
        }
    }

    pub(crate) fn record_use(&self, now_ms: u64) {
        self.used_at_ms.store(now_ms.max(1), Relaxed);
    }

    pub(crate) fn used_at_ms(&self) -> u64 {
        self.used_at_ms.load(Relaxed)
    }

    pub(crate) fn set_live(&self, processes: usize) {
        self.live.store(processes.max(1), Relaxed);
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Runs `work` with the retry budget of a credential, which may be that of the destination.
    pub(crate) fn with_budget<T>(&self, credential: &str, now_ms: u64, work: impl FnOnce(&mut BudgetState) -> T) -> T {
        let live = self.live();
        let work = |budget: &mut BudgetState| {
            budget.divide_by(live);
            work(budget)
        };
        if self.destination.credentials_are_systems {
            self.with_breaker(credential, now_ms, |own| work(&mut own.budget))
        } else {
            work(&mut self.budget.lock())
        }
    }

    /// Returns whether no retry is allowed now, to whatever credential.
    pub(crate) fn is_budget_empty(&self, now_ms: u64) -> bool {
        !self.destination.credentials_are_systems && self.with_budget("", now_ms, |budget| budget.balance(now_ms)) < 1.0
    }

    /// Returns for how long the breaker of this process rejects calls with a credential; `None` if it allows one now.
    pub(crate) fn own_rejection_ms(&self, credential: &str, now_ms: u64) -> Option<u64> {
        let breakers = self.breakers.lock();
        // After all processes had stopped, this one begins anew.
        let own = breakers.get(credential).filter(|own| !own.saw_open)?;
        Some(own.breaker.rejection(now_ms)?.retry_after_ms)
    }

    /// Counts the breakers by state. A destination that was not called has one that is closed.
    pub(crate) fn count_breakers(&self, shared: &HashMap<String, SharedPhase>) -> BreakerCounts {
        let mut counts = BreakerCounts::default();
        let breakers = self.breakers.lock();
        let unused = shared.keys().filter(|credential| !breakers.contains_key(*credential));
        let own = breakers.iter().map(|(credential, own)| (credential, Some(own.breaker.phase())));
        for (credential, phase) in own.chain(unused.map(|credential| (credential, None))) {
            match (shared.get(credential).unwrap_or(&SharedPhase::Watched), phase) {
                (SharedPhase::Isolated { .. }, _) => counts.isolated += 1,
                (SharedPhase::Open { .. }, _) | (SharedPhase::Watched, Some(BreakerPhase::Open)) => counts.open += 1,
                (SharedPhase::Probing { .. }, _)
                | (SharedPhase::Watched, Some(BreakerPhase::Probing | BreakerPhase::Closing)) => counts.half_open += 1,
                (SharedPhase::Watched, Some(BreakerPhase::Closed) | None) => counts.closed += 1,
            }
        }
        if counts == BreakerCounts::default() {
            counts.closed = 1;
        }
        counts
    }

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
        let own = breakers.entry(credential.to_owned()).or_insert_with(|| OwnBreaker {
            breaker: Breaker::new(self.destination.breaker),
            saw_open: false,
            budget: BudgetState::new(self.destination.budget),
            used_at_ms: now_ms,
        });
        own.used_at_ms = now_ms;
        work(own)
    }
}

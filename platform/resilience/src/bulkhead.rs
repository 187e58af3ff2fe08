//! A bulkhead: a limit on the calls in flight to one destination, with a bounded queue in front of it.
//!
//! ```text
//!     acquire ──► a place is free, and the tenant has its share ──► permit ──► dropped: the next waiter's turn
//!        │
//!        ├──────► the queue has room: wait; leaving the queue early costs nobody a place
//!        └──────► the queue is full: rejected
//! ```
//!
//! While others wait, one tenant has at most half of the places, and never more than half of the queue. The caller limits
//! the time of waiting: an [`Bulkhead::acquire`] that is dropped leaves the queue. The limit is fixed, or follows the results
//! of the calls ([`AdaptiveLimit`]).

use crate::limit::{AdaptiveLimit, CallSample, ConcurrencyLimit};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::sync::oneshot;

/// The size of a bulkhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BulkheadSettings {
    /// The number of calls in flight; at first, if it is adaptive.
    pub limit: usize,
    /// The number of callers that may wait.
    pub queue: usize,
    /// How long a caller may wait.
    pub wait_ms: u64,
    /// Lets the limit follow the results of the calls. Without it the limit is fixed.
    pub adaptive: Option<AdaptiveLimit>,
}

impl Default for BulkheadSettings {
    fn default() -> Self {
        Self { limit: 16, queue: 64, wait_ms: 1_000, adaptive: None }
    }
}

impl BulkheadSettings {
    /// Returns everything that is wrong with these settings; an empty list if they can be used.
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.limit == 0 {
            mistakes.push("the limit of the bulkhead must be at least 1".to_owned());
        }
        if let Some(AdaptiveLimit { min, max, .. }) = self.adaptive
            && !(1 <= min && min <= self.limit && self.limit <= max)
        {
            mistakes.push("an adaptive limit needs 1 ≤ min ≤ limit ≤ max".to_owned());
        }
        mistakes
    }
}

/// The queue of a bulkhead is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} calls are in flight and {waiting} callers wait")]
pub struct BulkheadFull {
    /// The calls in flight.
    pub in_flight: usize,
    /// The callers in the queue.
    pub waiting: usize,
}

/// A limit on the calls in flight, cheap to clone.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    places: Arc<Mutex<Places>>,
}

/// The right to one call. Dropping it passes the place on.
#[derive(Debug)]
pub struct BulkheadPermit {
    places: Arc<Mutex<Places>>,
    tenant: String,
    /// The calls in flight when it was granted, this one included.
    in_flight: usize,
}

#[derive(Debug)]
struct Places {
    limit: ConcurrencyLimit,
    queue: usize,
    in_flight: usize,
    by_tenant: HashMap<String, usize>,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    tenant: String,
    permit: oneshot::Sender<BulkheadPermit>,
}

impl Bulkhead {
    /// Creates an empty bulkhead.
    pub fn new(settings: BulkheadSettings) -> Self {
        let BulkheadSettings { limit, queue, adaptive, .. } = settings;
        let limit = ConcurrencyLimit::new(limit, adaptive);
        let (by_tenant, waiters) = (HashMap::new(), VecDeque::new());
        Self { places: Arc::new(Mutex::new(Places { limit, queue, in_flight: 0, by_tenant, waiters })) }
    }

    /// Waits for a place. Fails at once if the queue is full.
    pub async fn acquire(&self, tenant: &str) -> Result<BulkheadPermit, BulkheadFull> {
        let waiting = {
            let mut places = self.places.lock();
            places.remove_cancelled_waiters();
            if places.may_enter(tenant) {
                return Ok(places.enter(tenant, &self.places));
            }
            let (in_flight, waiting) = (places.in_flight, places.waiters.len());
            let own = places.waiters.iter().filter(|waiter| waiter.tenant == tenant).count();
            if waiting >= places.queue || own >= (places.queue / 2).max(1) {
                return Err(BulkheadFull { in_flight, waiting });
            }
            let (permit, waiting) = oneshot::channel();
            places.waiters.push_back(Waiter { tenant: tenant.to_owned(), permit });
            waiting
        };
        // A sender is dropped only with the whole bulkhead, which this call keeps alive.
        waiting.await.map_err(|_| BulkheadFull { in_flight: 0, waiting: 0 })
    }

    /// Returns the number of calls in flight.
    pub fn in_flight(&self) -> usize {
        self.places.lock().in_flight
    }

    /// Returns whether a caller would have to wait.
    pub fn is_full(&self) -> bool {
        let places = self.places.lock();
        places.in_flight >= places.limit.get()
    }

    /// Returns the number of calls that may be in flight now.
    pub fn limit(&self) -> usize {
        self.places.lock().limit.get()
    }
}

impl BulkheadPermit {
    /// Ends a call whose result says something about the destination: an adaptive limit learns from it. `is_drop` says that
    /// the destination failed, did not answer in time, or asked for a pause.
    pub fn complete(self, took: Duration, is_drop: bool) {
        let sample = CallSample { took, in_flight: self.in_flight, is_drop };
        self.places.lock().limit.update(sample);
    }
}

impl Drop for BulkheadPermit {
    fn drop(&mut self) {
        // A limit that grew has room for more than one waiter; there are no more of them than the limit.
        let granted: Vec<_> = {
            let mut places = self.places.lock();
            places.leave(&self.tenant);
            std::iter::from_fn(|| places.next(&self.places)).collect()
        };
        // A waiter that left in the meantime returns its permit by dropping it, without the lock.
        for (waiter, permit) in granted {
            drop(waiter.send(permit));
        }
    }
}

impl Places {
    fn share(&self) -> usize {
        (self.limit.get() / 2).max(1)
    }

    fn held_by(&self, tenant: &str) -> usize {
        self.by_tenant.get(tenant).copied().unwrap_or(0)
    }

    /// Whether `tenant` may take a free place: others that wait go first if it has its share.
    fn may_enter(&self, tenant: &str) -> bool {
        let others_wait = self.waiters.iter().any(|waiter| waiter.tenant != tenant);
        self.in_flight < self.limit.get() && (!others_wait || self.held_by(tenant) < self.share())
    }

    fn enter(&mut self, tenant: &str, places: &Arc<Mutex<Self>>) -> BulkheadPermit {
        self.in_flight += 1;
        *self.by_tenant.entry(tenant.to_owned()).or_default() += 1;
        BulkheadPermit { places: places.clone(), tenant: tenant.to_owned(), in_flight: self.in_flight }
    }

    fn leave(&mut self, tenant: &str) {
        self.in_flight -= 1;
        if let Some(held) = self.by_tenant.get_mut(tenant) {
            *held -= 1;
            if *held == 0 {
                self.by_tenant.remove(tenant);
            }
        }
    }

    /// Returns the first waiter that may enter, with its permit.
    fn next(&mut self, places: &Arc<Mutex<Self>>) -> Option<(oneshot::Sender<BulkheadPermit>, BulkheadPermit)> {
        self.remove_cancelled_waiters();
        let turn = self.waiters.iter().position(|waiter| self.may_enter(&waiter.tenant))?;
        let waiter = self.waiters.remove(turn)?;
        let permit = self.enter(&waiter.tenant, places);
        Some((waiter.permit, permit))
    }

    fn remove_cancelled_waiters(&mut self) {
        self.waiters.retain(|waiter| !waiter.permit.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};

    type Waiting<'a> = BoxFuture<'a, Result<BulkheadPermit, BulkheadFull>>;

    fn bulkhead(limit: usize, queue: usize) -> Bulkhead {
        Bulkhead::new(BulkheadSettings { limit, queue, ..BulkheadSettings::default() })
    }

    fn enter(bulkhead: &Bulkhead, tenant: &str) -> BulkheadPermit {
        bulkhead.acquire(tenant).now_or_never().expect("it does not wait").expect("it is not full")
    }

    /// Takes a place in the queue.
    fn wait<'a>(bulkhead: &'a Bulkhead, tenant: &'a str) -> Waiting<'a> {
        let mut waiting = bulkhead.acquire(tenant).boxed();
        assert!((&mut waiting).now_or_never().is_none(), "it waits");
        waiting
    }

    fn entered(waiting: &mut Waiting<'_>) -> Option<BulkheadPermit> {
        waiting.now_or_never().map(|entered| entered.expect("it is not full"))
    }

    #[test]
    fn a_place_is_passed_on_in_order_and_the_queue_is_bounded() {
        let bulkhead = bulkhead(1, 4);
        let first = enter(&bulkhead, "a");
        let (mut second, mut third) = (wait(&bulkhead, "a"), wait(&bulkhead, "a"));
        let refused = bulkhead.acquire("a").now_or_never().expect("it does not wait");
        assert_eq!(refused.expect_err("half of the queue is one tenant's").waiting, 2);
        let (_b, _c) = (wait(&bulkhead, "b"), wait(&bulkhead, "c"));
        assert!(bulkhead.acquire("d").now_or_never().expect("it does not wait").is_err());
        drop(first);
        assert!(entered(&mut third).is_none());
        drop(entered(&mut second).expect("it is its turn"));
    }

    #[test]
    fn a_caller_that_gives_up_costs_nobody_a_place() {
        let bulkhead = bulkhead(1, 2);
        let first = enter(&bulkhead, "a");
        drop(wait(&bulkhead, "a"));
        let granted_and_dropped = wait(&bulkhead, "a");
        drop(first);
        drop(granted_and_dropped);
        assert_eq!(bulkhead.in_flight(), 0);
        let _next = enter(&bulkhead, "b");
    }

    #[test]
    fn one_tenant_has_at_most_half_of_the_places_while_others_wait() {
        let bulkhead = bulkhead(4, 8);
        let mut held: Vec<BulkheadPermit> = (0..4).map(|_| enter(&bulkhead, "big")).collect();
        assert!(bulkhead.is_full(), "alone, it has all of them");
        let mut more = wait(&bulkhead, "big");
        let (mut small, mut other) = (wait(&bulkhead, "small"), wait(&bulkhead, "small"));
        held.pop();
        let _small = entered(&mut small).expect("the small one goes first");
        assert!(entered(&mut more).is_none());
        held.pop();
        let _other = entered(&mut other).expect("it still goes first");
        held.pop();
        assert!(entered(&mut more).is_some(), "nobody else waits");
    }

    #[test]
    fn a_bulkhead_of_one_place_serves_every_tenant() {
        let bulkhead = bulkhead(1, 8);
        let held = enter(&bulkhead, "big");
        let (mut big, mut small) = (wait(&bulkhead, "big"), wait(&bulkhead, "small"));
        drop(held);
        drop(entered(&mut big).expect("it came first"));
        assert!(entered(&mut small).is_some());
    }

    #[test]
    fn an_adaptive_limit_that_grows_lets_more_waiters_in() {
        let adaptive = Some(AdaptiveLimit { min: 1, max: 3, ..AdaptiveLimit::default() });
        let bulkhead = Bulkhead::new(BulkheadSettings { limit: 1, queue: 8, adaptive, ..BulkheadSettings::default() });
        let first = enter(&bulkhead, "a");
        let (mut second, mut third) = (wait(&bulkhead, "a"), wait(&bulkhead, "b"));
        first.complete(Duration::from_millis(1), false);
        assert_eq!(bulkhead.limit(), 2);
        let second = entered(&mut second).expect("it has a place");
        let third = entered(&mut third).expect("the limit grew");
        second.complete(Duration::from_millis(1), true);
        assert_eq!(bulkhead.limit(), 1, "the destination dropped a call");
        assert!(bulkhead.is_full());
        drop(third);
    }
}

//! Endpoints that this instance does not claim deliveries for now, because a request would be rejected.
//!
//! An endpoint is added when a request to it was rejected, and stays as long as its breaker rejects or its pause lasts. So a
//! rejected endpoint costs one claim per pause, however large its backlog is. The set is this instance's own: if only its network
//! is broken, others continue to send.

use crate::{
    destination::{NAME, credential},
    store::ClaimedDelivery,
};
use onceward::outbound::{Outbound, RejectReason, Rejected};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    time::Instant,
};
use uuid::Uuid;

/// The endpoints that wait, by id, in the order in which claims visit them.
pub(super) struct WaitingEndpoints {
    outbound: Outbound,
    endpoints: Mutex<BTreeMap<Uuid, WaitingEndpoint>>,
}

struct WaitingEndpoint {
    /// An endpoint that was given another URL does not wait any more.
    url: String,
    /// The end of a wait that no breaker decides about.
    until: Option<Instant>,
}

impl WaitingEndpoints {
    pub(super) fn new(outbound: Outbound) -> Self {
        Self { outbound, endpoints: Mutex::default() }
    }

    /// Adds the endpoint of a delivery that was rejected.
    pub(super) fn add(&self, delivery: &ClaimedDelivery, rejected: &Rejected) {
        let until = match rejected.why {
            RejectReason::BreakerOpen | RejectReason::Isolated | RejectReason::ProbeFailed => None,
            RejectReason::BulkheadFull | RejectReason::BudgetEmpty => Some(Instant::now() + rejected.after),
        };
        self.endpoints.lock().insert(delivery.endpoint_id, WaitingEndpoint { url: delivery.url.clone(), until });
    }

    /// Returns at most `limit` of the endpoints that wait, with their URLs, from the first one after `cursor`.
    pub(super) fn after(&self, cursor: Uuid, limit: usize) -> Vec<(Uuid, String)> {
        let endpoints = self.endpoints.lock();
        let waiting = endpoints.range((Excluded(cursor), Unbounded)).filter(|(id, one)| self.is_waiting(**id, one));
        waiting.take(limit).map(|(id, one)| (*id, one.url.clone())).collect()
    }

    /// Forgets the endpoints that do not wait any more.
    pub(super) fn remove_ready(&self) {
        self.endpoints.lock().retain(|id, one| self.is_waiting(*id, one));
    }

    fn is_waiting(&self, id: Uuid, one: &WaitingEndpoint) -> bool {
        match one.until {
            Some(until) => Instant::now() < until,
            None => self.outbound.rejection(NAME, &credential(id, &one.url)).is_some(),
        }
    }
}

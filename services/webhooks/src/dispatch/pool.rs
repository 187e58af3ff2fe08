//! A share of the requests that one instance has in flight.
//!
//! Healthy endpoints and failing endpoints have one pool each. However many failing endpoints hang, they delay only
//! each other.

use super::sender::DeliverySender;
use crate::store::{self, ClaimRequest};
use onceward::Supervisor;
use std::{future, sync::Arc};
use tokio::task::JoinSet;
use uuid::Uuid;

/// The name under which deliveries that panic are reported.
const TASK: &str = "webhook-delivery";
/// Deliveries per claim. Their bodies are held in memory.
const MAX_CLAIMED: usize = 100;

pub(super) struct DeliveryPool {
    failing: bool,
    capacity: usize,
    in_flight: JoinSet<()>,
    /// The endpoint after which the next claim continues, so that every endpoint gets its turn.
    cursor: Uuid,
}

impl DeliveryPool {
    pub(super) fn new(failing: bool, capacity: usize) -> Self {
        Self { failing, capacity, in_flight: JoinSet::new(), cursor: Uuid::nil() }
    }

    /// Claims due deliveries and starts to send them, until the pool is full or nothing is due.
    pub(super) async fn fill(&mut self, sender: &Arc<DeliverySender>) {
        let mut is_full_scan = self.cursor.is_nil();
        while self.in_flight.len() < self.capacity {
            let (deliveries, next_cursor) = match store::claim_deliveries(&sender.db, self.claim_request(sender)).await
            {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "claiming webhook deliveries failed; retrying");
                    return;
                }
            };
            for delivery in deliveries {
                self.in_flight.spawn(sender.clone().deliver(delivery));
            }
            self.cursor = next_cursor.unwrap_or_default();
            // Nothing more is due once the last endpoint is reached by a scan that started at the first.
            if next_cursor.is_none() && std::mem::replace(&mut is_full_scan, true) {
                return;
            }
        }
    }

    fn claim_request(&self, sender: &DeliverySender) -> ClaimRequest {
        let free = (self.capacity - self.in_flight.len()).min(MAX_CLAIMED);
        let per_endpoint = sender.settings.in_flight_per_endpoint.max(1);
        ClaimRequest {
            after: self.cursor,
            limit: i32::try_from(free).unwrap_or(i32::MAX),
            in_flight_per_endpoint: i32::try_from(per_endpoint).unwrap_or(i32::MAX),
            failing: self.failing,
            lease_ms: sender.settings.lease_ms(),
            waiting: sender.waiting.after(self.cursor, store::MAX_VISITED),
        }
    }

    /// Waits until at least one request has ended; forever if none is in flight. Reports panicked requests to
    /// `supervisor`.
    pub(super) async fn wait_for_any(&mut self, supervisor: &Supervisor) {
        let Some(first) = self.in_flight.join_next().await else {
            return future::pending().await;
        };
        let others = std::iter::from_fn(|| self.in_flight.try_join_next());
        for ended in std::iter::once(first).chain(others) {
            if ended.is_err() {
                supervisor.failed(TASK, "a webhook delivery panicked; it is retried when its lease has expired");
            }
        }
    }

    pub(super) async fn wait_for_all(&mut self) {
        while self.in_flight.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_delivery_that_panics_is_reported() {
        let (mut pool, supervisor) = (DeliveryPool::new(false, 1), Supervisor::new());
        pool.in_flight.spawn(async { panic!("on purpose") });
        pool.wait_for_any(&supervisor).await;
        assert!(supervisor.check().is_err_and(|failing| failing.contains(TASK)));
    }
}

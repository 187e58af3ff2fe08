//! A share of the requests that one instance has under way.
//!
//! Endpoints that are well and endpoints that fail have a lane each. However many of the latter hang, they wait for each other only.

use super::attempt::Courier;
use crate::store::{self, Claim};
use std::{future, sync::Arc};
use tokio::task::JoinSet;
use uuid::Uuid;

/// Deliveries of one claim, whose bodies are held in memory.
const CLAIM_AT_MOST: usize = 100;

pub(super) struct Lane {
    failing: bool,
    most: usize,
    sends: JoinSet<()>,
    /// The endpoint behind which to go on, so that all get their turn.
    cursor: Uuid,
}

impl Lane {
    pub(super) fn new(failing: bool, most: usize) -> Self {
        Self { failing, most, sends: JoinSet::new(), cursor: Uuid::nil() }
    }

    /// Starts to send whatever is due, as far as there is room.
    pub(super) async fn claim(&mut self, courier: &Arc<Courier>) {
        let mut from_the_start = self.cursor.is_nil();
        while self.sends.len() < self.most {
            let room = (self.most - self.sends.len()).min(CLAIM_AT_MOST);
            let claim = Claim {
                after: self.cursor,
                most: i32::try_from(room).unwrap_or(i32::MAX),
                in_flight_per_endpoint: i32::try_from(courier.settings.in_flight_per_endpoint.max(1))
                    .unwrap_or(i32::MAX),
                failing: self.failing,
                lease_ms: courier.settings.lease_ms(),
            };
            let (claimed, go_on) = match store::claim(&courier.db, claim).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "webhook deliveries cannot be claimed; trying again");
                    return;
                }
            };
            for one in claimed {
                self.sends.spawn(courier.clone().deliver(one));
            }
            self.cursor = go_on.unwrap_or_default();
            if go_on.is_none() && std::mem::replace(&mut from_the_start, true) {
                return;
            }
        }
    }

    /// Waits until requests came to their end; for ever if there are none.
    pub(super) async fn some_finished(&mut self) {
        let Some(first) = self.sends.join_next().await else {
            return future::pending().await;
        };
        let others = std::iter::from_fn(|| self.sends.try_join_next());
        for ended in std::iter::once(first).chain(others) {
            if ended.is_err() {
                tracing::error!("a webhook delivery panicked; it is tried again when its lease has run out");
            }
        }
    }

    pub(super) async fn all_finished(&mut self) {
        while self.sends.join_next().await.is_some() {}
    }
}

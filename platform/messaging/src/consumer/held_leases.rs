//! The leases that this process holds, and the heartbeats that extend them.

use onceward_message_log::{LeaseId, QueueReader};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The held leases; each has a token that is cancelled when the lease is lost.
#[derive(Default)]
pub(crate) struct HeldLeases(Mutex<HashMap<LeaseId, CancellationToken>>);

impl HeldLeases {
    /// Extends all held leases at a third of their duration, for ever.
    pub(crate) async fn send_heartbeats(&self, reader: &QueueReader, lease: Duration) {
        loop {
            tokio::time::sleep(lease / 3).await;
            let leases = self.all();
            if leases.is_empty() {
                continue;
            }
            match reader.extend(&leases, lease).await {
                Ok(kept) => self.cancel_lost(&leases, &kept),
                Err(error) => tracing::warn!(%error, "heartbeat failed; leases remain valid until they expire"),
            }
        }
    }

    fn all(&self) -> Vec<LeaseId> {
        self.0.lock().keys().copied().collect()
    }

    /// Cancels the `extended` leases that were not `kept`. Leases taken while the heartbeat was in flight were not part
    /// of it, so they are not lost.
    fn cancel_lost(&self, extended: &[LeaseId], kept: &[LeaseId]) {
        for (lease, token) in &*self.0.lock() {
            if extended.contains(lease) && !kept.contains(lease) {
                token.cancel();
            }
        }
    }
}

/// Keeps a lease alive until it is dropped.
pub(crate) struct LeaseGuard {
    held: Arc<HeldLeases>,
    lease: LeaseId,
}

impl LeaseGuard {
    pub(crate) fn new(held: &Arc<HeldLeases>, lease: LeaseId, token: CancellationToken) -> Self {
        held.0.lock().insert(lease, token);
        Self { held: held.clone(), lease }
    }
}

impl Drop for LeaseGuard {
    /// Runs however the task ended: a lease that no task works on must expire.
    fn drop(&mut self) {
        self.held.0.lock().remove(&self.lease);
    }
}

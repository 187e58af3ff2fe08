//! Connections that are open and not in use.

use super::{SmtpSettings, connection::SmtpConnection};
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// At most `max_connections` are open, used or not. Unused ones that are too old are closed when the pool is next used.
pub(super) struct SmtpPool {
    slots: Semaphore,
    idle: Mutex<Vec<SmtpConnection>>,
    idle_limit: Duration,
    max_mails: u32,
}

impl SmtpPool {
    pub(super) fn new(settings: &SmtpSettings) -> Self {
        Self {
            slots: Semaphore::new(settings.max_connections),
            idle: Mutex::new(Vec::new()),
            idle_limit: settings.idle_limit,
            max_mails: settings.max_mails_per_connection,
        }
    }

    /// Waits for the right to use one connection.
    pub(super) async fn slot(&self, limit: Duration) -> Option<SemaphorePermit<'_>> {
        timeout(limit, self.slots.acquire()).await.ok()?.ok()
    }

    /// Returns the connection that was used last, if one is young and the server has not closed it.
    pub(super) fn take(&self) -> Option<SmtpConnection> {
        let mut idle = self.idle.lock();
        idle.retain(|connection| connection.idle_since.elapsed() < self.idle_limit);
        while let Some(mut connection) = idle.pop() {
            if !connection.wire.is_stale() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, unless it has taken as many mails as it may.
    pub(super) fn put(&self, mut connection: SmtpConnection) {
        if connection.mails < self.max_mails {
            connection.idle_since = Instant::now();
            self.idle.lock().push(connection);
        }
    }
}

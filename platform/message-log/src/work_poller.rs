//! The work poller of a queue: finds lanes with work without a wake-up, and tracks when the next deferred message is
//! due.

use crate::{lane_scheduler::Lane, queue_state::QueueState};
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use onceward_supervisor::Supervisor;
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

// In `migrations/0007_take_turns.sql`:
const LANES_WITH_WORK: &str = "SELECT lane_id, tenant_id, priority FROM onceward.lanes_with_work($1)";
const NEXT_DUE_MS: &str = "SELECT onceward.next_due_ms($1)";

/// A session that publishes continuously may omit notifications for 10 ms, so a queue that ran empty is polled once
/// more after this time.
pub(crate) const LINGER: Duration = Duration::from_millis(15);
/// The longest wait before the task checks whether its queue still exists.
const WAIT_STEP: Duration = Duration::from_secs(1);

/// Knows when a queue is polled next.
pub(crate) struct WorkPoller {
    next: Mutex<Instant>,
    changed: Notify,
}

impl WorkPoller {
    pub(crate) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()), changed: Notify::new() }
    }

    /// Schedules the next poll after `delay` at the latest.
    pub(crate) fn poll_within(&self, delay: Duration) {
        let wanted = Instant::now() + delay;
        let mut next = self.next.lock();
        if wanted < *next {
            *next = wanted;
            self.changed.notify_one();
        }
    }

    fn poll_after(&self, delay: Duration) {
        *self.next.lock() = Instant::now() + delay;
    }

    /// Waits for the next poll, which may be rescheduled to an earlier time. Returns `false` if it is not due yet: the
    /// wait has steps, so that the task can end.
    async fn is_due(&self) -> bool {
        let next = *self.next.lock();
        let step = Instant::now() + WAIT_STEP;
        tokio::select! {
            () = tokio::time::sleep_until(next.min(step)) => next <= step,
            () = self.changed.notified() => false,
        }
    }
}

/// Polls for work under `supervisor` until the queue is dropped.
pub(crate) async fn run(supervisor: Supervisor, db: Db, queue: Weak<QueueState>, poll_ms: u64) {
    let Some(name) = queue.upgrade().map(|queue| format!("poller:{}", queue.name)) else {
        return;
    };
    let work = || async {
        poll_repeatedly(db.clone(), queue.clone(), Duration::from_millis(poll_ms)).await;
        Ok(())
    };
    supervisor.run_to_end(&name, &CancellationToken::new(), work).await;
}

async fn poll_repeatedly(db: Db, queue: Weak<QueueState>, interval: Duration) {
    loop {
        let Some(queue) = queue.upgrade() else {
            return;
        };
        if !queue.poller.is_due().await {
            continue;
        }
        // Jitter keeps instances that started together from polling together.
        queue.poller.poll_after(interval.mul_f64(rand::random_range(0.8..1.2)));
        match poll(&db, &queue).await {
            Ok(Some(next_due)) => queue.poller.poll_within(next_due),
            Ok(None) => {}
            Err(error) => tracing::debug!(queue = %queue.name, %error, "polling for work failed; retrying"),
        }
    }
}

/// Wakes the lanes that have work. Returns the time until the next deferred message is due.
async fn poll(db: &Db, queue: &Arc<QueueState>) -> Result<Option<Duration>, DbError> {
    let connection = db.connection().await?;
    for row in connection.query(LANES_WITH_WORK, &[&queue.queue_id]).await? {
        if let Ok(tenant) = TenantId::new(row.get::<_, &str>(1)) {
            queue.wake(&Lane { id: row.get(0), tenant, priority: row.get(2) });
        }
    }
    queue.finish_first_poll();
    let due = connection.query(NEXT_DUE_MS, &[&queue.queue_id]).await?;
    let due_ms: Option<i64> = due[0].get(0);
    // Messages that are already due were just found and are being worked on.
    Ok(due_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.unsigned_abs())))
}

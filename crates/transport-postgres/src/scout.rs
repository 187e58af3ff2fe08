//! The scout of a queue: finds lanes with work although nobody woke us, and knows when the next
//! message put aside is due.

use crate::{lanes::Lane, queue::Shared, store};
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// A session that publishes in a stream may leave out notifications for 10 ms, so a queue that ran
/// dry is looked at once more after this.
pub(crate) const LINGER: Duration = Duration::from_millis(15);

/// When to look next.
pub(crate) struct Scout {
    next: Mutex<Instant>,
    changed: Notify,
}

impl Scout {
    pub(crate) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()), changed: Notify::new() }
    }

    /// Look after `delay` at the latest.
    pub(crate) fn within(&self, delay: Duration) {
        let wanted = Instant::now() + delay;
        let mut next = self.next.lock().expect("no panic while held");
        if wanted < *next {
            *next = wanted;
            self.changed.notify_one();
        }
    }

    fn set(&self, delay: Duration) {
        *self.next.lock().expect("no panic while held") = Instant::now() + delay;
    }

    /// Waits for the time, which may come nearer meanwhile; in steps, so that the task can end.
    async fn time_to_look(&self) -> bool {
        let next = *self.next.lock().expect("no panic while held");
        let step = Instant::now() + Duration::from_secs(1);
        tokio::select! {
            () = tokio::time::sleep_until(next.min(step)) => next <= step,
            () = self.changed.notified() => false,
        }
    }
}

/// Runs until the queue is dropped.
pub(crate) async fn scout(db: Db, shared: Weak<Shared>, poll: Duration) {
    loop {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        if !strong.scout.time_to_look().await {
            continue;
        }
        // Jitter keeps instances that started together from asking together.
        let pause = poll.mul_f64(rand::random_range(0.8..1.2));
        strong.scout.set(pause);
        match look(&db, &strong).await {
            Ok(Some(due)) => strong.scout.within(due),
            Ok(None) => {}
            Err(error) => tracing::debug!(queue = %strong.name, %error, "could not look for work"),
        }
    }
}

async fn look(db: &Db, shared: &Arc<Shared>) -> Result<Option<Duration>, DbError> {
    let connection = db.connection().await?;
    for row in connection.query(store::LANES_WITH_WORK, &[&shared.queue_id]).await? {
        if let Ok(tenant) = TenantId::new(row.get::<_, &str>(1)) {
            shared.heat(&Lane { id: row.get(0), tenant, priority: row.get(2) });
        }
    }
    shared.surveyed();
    let due = connection.query(store::NEXT_DUE_MS, &[&shared.queue_id]).await?;
    let due_ms: Option<i64> = due[0].get(0);
    // What is due already was just found; it is being worked in.
    Ok(due_ms.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.unsigned_abs())))
}

//! Keeps a process's view of shared breakers current. The work does not grow with the number of closed breakers, which
//! have no rows. A change is announced with its breaker, and only that one is read; all are read at intervals, because an
//! announcement may be lost.

use crate::{Outbound, measure, registry::OutboundInner, store};
use onceward_db::{Db, DbError, listen::ListenEvent};
use onceward_resilience::SharedPhase;
use onceward_supervisor::{Supervisor, TaskError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The name under which the task is supervised.
const TASK: &str = "breakers";
/// How often the whole view is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Reading all breakers takes at most one part in this many of a process's time, however many are open.
const REFRESH_REST: u32 = 20;
/// How often a process records which destinations it uses.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

impl Outbound {
    /// Follows the shared breakers until `stop`. Without a database or a destination it returns at once.
    pub async fn run(&self, supervisor: &Supervisor, stop: CancellationToken) {
        let Some(db) = self.inner.db.as_ref().filter(|_| self.inner.has_destinations()) else { return };
        supervisor.keep_running(TASK, &stop, || follow(&self.inner, db, &stop)).await;
    }
}

async fn follow(inner: &OutboundInner, db: &Db, stop: &CancellationToken) -> Result<(), TaskError> {
    let mut changes = db.listen(store::CHANNEL);
    let (mut heartbeat_at, mut recorded) = (Instant::now(), Vec::new());
    let (mut refresh_at, mut reported_at) = (Instant::now(), Instant::now());
    while !stop.is_cancelled() {
        let used = inner.used_destinations();
        if !used.is_empty() && (used != recorded || Instant::now() >= heartbeat_at) {
            match store::heartbeat(db, &inner.process, &used).await {
                Ok(live) => {
                    inner.observe_live(live);
                    (heartbeat_at, recorded) = (Instant::now() + HEARTBEAT_INTERVAL, used);
                }
                Err(error) => tracing::debug!(%error, "recording the destinations of this process failed"),
            }
        }
        let started = Instant::now();
        if started >= refresh_at {
            if let Err(error) = refresh(inner, db).await {
                // What was read last stays in force until its pause is over; then this process decides for itself.
                tracing::debug!(%error, "reading the shared breakers failed");
            }
            refresh_at = Instant::now() + POLL_INTERVAL.max(started.elapsed() * REFRESH_REST);
        }
        let seconds = reported_at.elapsed().as_secs();
        if seconds > 0 {
            inner.report_breakers(seconds);
            reported_at += Duration::from_secs(seconds);
        }
        tokio::select! {
            // A listener that has ended returns at once from now on; the supervisor starts another one.
            change = changes.next() => match change.ok_or("the listening connection's task ended")? {
                ListenEvent::Connected => refresh_at = Instant::now(),
                ListenEvent::Notified(payload) => {
                    match store::find_announced(db, &payload).await {
                        Ok(Some(row)) => inner.observe_one(row),
                        Ok(None) => refresh_at = Instant::now(),
                        Err(error) => tracing::debug!(%error, "reading a shared breaker failed"),
                    }
                }
            },
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

/// Reads the rows, and removes those about which there is nothing to remember any more.
async fn refresh(inner: &OutboundInner, db: &Db) -> Result<(), DbError> {
    let rows = store::list(db).await?;
    measure::open_breakers(rows.iter().filter(|row| row.breaker.phase != SharedPhase::Watched).count());
    for row in &rows {
        let mut expired = row.breaker.clone();
        expired.expire(row.now_ms);
        if expired.is_idle() {
            store::apply(db, &row.destination, &row.credential, |breaker, _, now_ms| breaker.expire(now_ms)).await?;
        }
    }
    inner.observe(rows);
    Ok(())
}

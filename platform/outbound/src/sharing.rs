//! Keeps a process's view of shared breakers current. The work does not grow with the number of closed breakers, which
//! have no rows.

use crate::{Outbound, measure, registry::OutboundInner, store};
use onceward_db::{Db, DbError};
use onceward_resilience::SharedPhase;
use onceward_supervisor::{Supervisor, TaskError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The name under which the task is supervised.
const TASK: &str = "breakers";
/// How often the view is read if no change is announced.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
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
    while !stop.is_cancelled() {
        let used = inner.used_destinations();
        if !used.is_empty() && (used != recorded || Instant::now() >= heartbeat_at) {
            match store::heartbeat(db, &inner.process, &used).await {
                Ok(()) => (heartbeat_at, recorded) = (Instant::now() + HEARTBEAT_INTERVAL, used),
                Err(error) => tracing::debug!(%error, "recording the destinations of this process failed"),
            }
        }
        if let Err(error) = refresh(inner, db).await {
            // What was read last stays in force until its pause is over; then this process decides for itself.
            tracing::debug!(%error, "reading the shared breakers failed");
        }
        tokio::select! {
            change = changes.next() => {
                // A listener that has ended returns at once from now on; the supervisor starts another one.
                if change.is_none() {
                    return Err("the listening connection's task ended".into());
                }
            }
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

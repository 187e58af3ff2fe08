//! One reader per survey and process, regardless of the number of viewers.
//!
//! The first viewer starts the reader, which reads snapshots periodically and sends each to all viewers. It stops when
//! the last viewer disconnects or the process stops.

use super::{page, probe, snapshot};
use crate::SurveyError;
use onceward::{Db, Scope, Supervisor, TenantId, web::AppState};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The task name under which readers are supervised.
const TASK: &str = "survey-live-view";

/// A tenant and its survey.
type SurveyKey = (TenantId, Uuid);

/// A snapshot, rendered once for all viewers.
pub(crate) struct RenderedSnapshot {
    pub(crate) json: String,
    /// The parts of the page that change.
    pub(crate) html: String,
}

/// The readers of this process, by survey.
pub(crate) struct LiveFeed {
    readers: Mutex<HashMap<SurveyKey, watch::Sender<Arc<RenderedSnapshot>>>>,
    viewer_permits: Arc<Semaphore>,
    interval: Duration,
    idle_s: u32,
}

/// One viewer's subscription.
pub(crate) struct LiveSubscription {
    snapshots: watch::Receiver<Arc<RenderedSnapshot>>,
    is_first: bool,
    ends_at: Instant,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl LiveFeed {
    /// Creates a feed for at most `viewers_max` concurrent viewers that reads a snapshot per `interval`.
    pub(crate) fn new(viewers_max: usize, interval: Duration, idle_s: u32) -> Arc<Self> {
        let viewer_permits = Arc::new(Semaphore::new(viewers_max));
        Arc::new(Self { readers: Mutex::default(), viewer_permits, interval, idle_s })
    }

    /// Subscribes for at most `duration_max`. Returns `None` if the limit of concurrent viewers is reached.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        state: &AppState,
        key: SurveyKey,
        duration_max: Duration,
    ) -> Result<Option<LiveSubscription>, SurveyError> {
        let Ok(permit) = self.viewer_permits.clone().try_acquire_owned() else {
            return Ok(None);
        };
        let running = self.readers.lock().get(&key).map(watch::Sender::subscribe);
        let snapshots = match running {
            Some(snapshots) => snapshots,
            None => self.start_reader(state, key).await?,
        };
        let ends_at = Instant::now() + duration_max;
        let stop = state.stopping.clone();
        Ok(Some(LiveSubscription { snapshots, is_first: true, ends_at, stop, _permit: permit }))
    }

    async fn start_reader(
        self: &Arc<Self>,
        state: &AppState,
        key: SurveyKey,
    ) -> Result<watch::Receiver<Arc<RenderedSnapshot>>, SurveyError> {
        let first = read(&state.db, &key, self.idle_s).await?;
        let mut readers = self.readers.lock();
        // Another viewer may have started the reader meanwhile.
        if let Some(sender) = readers.get(&key) {
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = watch::channel(first);
        readers.insert(key.clone(), sender.clone());
        let (feed, db, supervisor, stop) =
            (self.clone(), state.db.clone(), state.supervisor.clone(), state.stopping.clone());
        tokio::spawn(async move {
            feed.supervise_reader(&supervisor, &stop, &key, &sender, || read(&db, &key, feed.idle_s)).await;
        });
        Ok(receiver)
    }

    /// Runs a reader, and restarts it if it panics, until the last viewer disconnects or the process stops.
    async fn supervise_reader<Fut>(
        &self,
        supervisor: &Supervisor,
        stop: &CancellationToken,
        key: &SurveyKey,
        sender: &watch::Sender<Arc<RenderedSnapshot>>,
        read: impl Fn() -> Fut,
    ) where
        Fut: Future<Output = Result<Arc<RenderedSnapshot>, SurveyError>>,
    {
        let work = || async {
            self.read_periodically(stop, key, sender, &read).await;
            Ok(())
        };
        supervisor.run_to_end(TASK, stop, work).await;
    }

    async fn read_periodically<Fut>(
        &self,
        stop: &CancellationToken,
        key: &SurveyKey,
        sender: &watch::Sender<Arc<RenderedSnapshot>>,
        read: impl Fn() -> Fut,
    ) where
        Fut: Future<Output = Result<Arc<RenderedSnapshot>, SurveyError>>,
    {
        loop {
            tokio::select! { () = tokio::time::sleep(self.interval) => {}, () = stop.cancelled() => {} }
            {
                // Under the lock, so that no viewer can subscribe to a reader that is about to stop.
                let mut readers = self.readers.lock();
                if stop.is_cancelled() || sender.receiver_count() == 0 {
                    readers.remove(key);
                    return;
                }
            }
            match read().await {
                Ok(snapshot) => drop(sender.send_replace(snapshot)),
                Err(error) => tracing::warn!(%error, survey_id = %key.1, "reading the live view failed; retrying"),
            }
        }
    }
}

impl LiveSubscription {
    /// Returns the next snapshot, immediately on the first call, or `None` when the subscription has ended.
    pub(crate) async fn next(&mut self) -> Option<Arc<RenderedSnapshot>> {
        if !std::mem::take(&mut self.is_first) {
            tokio::select! {
                changed = self.snapshots.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.ends_at) => return None,
                () = self.stop.cancelled() => return None,
            }
        }
        Some(self.snapshots.borrow_and_update().clone())
    }
}

async fn read(db: &Db, (tenant, survey_id): &SurveyKey, idle_s: u32) -> Result<Arc<RenderedSnapshot>, SurveyError> {
    let mut tx = db.begin(Scope::for_tenant(tenant.clone())).await?;
    let snapshot = snapshot::read(&tx, *survey_id, idle_s).await?;
    probe::send(&mut tx, *survey_id).await?;
    tx.commit().await?;
    let json = serde_json::to_string(&snapshot).map_err(|error| SurveyError::CorruptData(error.to_string()))?;
    Ok(Arc::new(RenderedSnapshot { json, html: page::parts(&snapshot).into_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn rendered(json: &str) -> Arc<RenderedSnapshot> {
        Arc::new(RenderedSnapshot { json: json.to_owned(), html: String::new() })
    }

    #[tokio::test]
    async fn a_reader_that_panics_is_restarted_and_ends_when_the_last_viewer_leaves() {
        let feed = LiveFeed::new(1, Duration::from_millis(1), 1);
        let key = (TenantId::new("acme").unwrap(), Uuid::nil());
        let (sender, mut receiver) = watch::channel(rendered("first"));
        feed.readers.lock().insert(key.clone(), sender.clone());
        let (supervisor, stop, reads) = (Supervisor::new(), CancellationToken::new(), AtomicU32::new(0));
        let read = || {
            let number = reads.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(number > 0, "panics on purpose");
                Ok(rendered("after the panic"))
            }
        };
        let viewing = async {
            receiver.changed().await.expect("the reader runs");
            assert_eq!(receiver.borrow_and_update().json, "after the panic");
            assert!(supervisor.check().is_err_and(|failing| failing.contains(TASK)));
            drop(receiver);
        };
        let both = async { tokio::join!(feed.supervise_reader(&supervisor, &stop, &key, &sender, read), viewing) };
        tokio::time::timeout(TIMEOUT, both).await.expect("the reader ends when nobody is viewing");
        assert!(feed.readers.lock().is_empty());
    }
}

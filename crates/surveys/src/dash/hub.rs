//! One reader a survey and process, however many look on.
//!
//! The first to look starts it; it reads a snapshot at a time and hands it to all of them; when nobody looks any more, or the
//! process stops, it ends.

use super::snapshot;
use crate::SurveyError;
use onceward::{Db, Scope, TenantId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Key = (TenantId, Uuid);
/// A snapshot as JSON, written once for everybody.
type Shared = Arc<str>;

/// All that is looked at in this process.
pub(crate) struct Hub {
    readers: Mutex<HashMap<Key, watch::Sender<Shared>>>,
    seats: Arc<Semaphore>,
    every: Duration,
}

/// Somebody who looks on.
pub(crate) struct Listener {
    snapshots: watch::Receiver<Shared>,
    first: bool,
    until: Instant,
    stop: CancellationToken,
    _seat: OwnedSemaphorePermit,
}

impl Hub {
    /// At most `seats` look on at once; a snapshot is read `every` so often.
    pub(crate) fn new(seats: usize, every: Duration) -> Arc<Self> {
        Arc::new(Self { readers: Mutex::default(), seats: Arc::new(Semaphore::new(seats)), every })
    }

    /// Looks on for as long as `at_most`; `None` when all seats are taken.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        db: &Db,
        key: Key,
        at_most: Duration,
        stop: &CancellationToken,
    ) -> Result<Option<Listener>, SurveyError> {
        let Ok(seat) = self.seats.clone().try_acquire_owned() else {
            return Ok(None);
        };
        let known = self.locked().get(&key).map(watch::Sender::subscribe);
        let snapshots = match known {
            Some(snapshots) => snapshots,
            None => self.start(db, key, stop).await?,
        };
        let until = Instant::now() + at_most;
        Ok(Some(Listener { snapshots, first: true, until, stop: stop.clone(), _seat: seat }))
    }

    async fn start(
        self: &Arc<Self>,
        db: &Db,
        key: Key,
        stop: &CancellationToken,
    ) -> Result<watch::Receiver<Shared>, SurveyError> {
        let first = read(db, &key).await?;
        let mut readers = self.locked();
        // Another may have been quicker.
        if let Some(sender) = readers.get(&key) {
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = watch::channel(first);
        readers.insert(key.clone(), sender.clone());
        tokio::spawn(self.clone().keep_reading(db.clone(), key, sender, stop.clone()));
        Ok(receiver)
    }

    async fn keep_reading(self: Arc<Self>, db: Db, key: Key, sender: watch::Sender<Shared>, stop: CancellationToken) {
        loop {
            tokio::select! { () = tokio::time::sleep(self.every) => {}, () = stop.cancelled() => {} }
            {
                // Under the lock, so that nobody joins a reader that is about to end.
                let mut readers = self.locked();
                if stop.is_cancelled() || sender.receiver_count() == 0 {
                    readers.remove(&key);
                    return;
                }
            }
            match read(&db, &key).await {
                Ok(snapshot) => drop(sender.send_replace(snapshot)),
                Err(error) => tracing::warn!(%error, survey_id = %key.1, "the live view cannot be read; trying again"),
            }
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<Key, watch::Sender<Shared>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// The next snapshot, at once the first time; `None` when it is over.
    pub(crate) async fn next(&mut self) -> Option<Shared> {
        if !std::mem::take(&mut self.first) {
            tokio::select! {
                changed = self.snapshots.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.until) => return None,
                () = self.stop.cancelled() => return None,
            }
        }
        Some(self.snapshots.borrow_and_update().clone())
    }
}

async fn read(db: &Db, (tenant, survey_id): &Key) -> Result<Shared, SurveyError> {
    let tx = db.begin(Scope::tenant(tenant.clone())).await?;
    let snapshot = snapshot::read(&tx, *survey_id).await?;
    tx.rollback().await?;
    let text = serde_json::to_string(&snapshot).map_err(|error| SurveyError::Corrupt(error.to_string()))?;
    Ok(text.into())
}

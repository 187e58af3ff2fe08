//! Waking workers at once, in this process and in others.
//!
//! A `NOTIFY` inside the publisher's transaction would serialise all commits. So it is sent
//! afterwards, by one task, for all commits of the last few milliseconds together; and not at all
//! for queues that this process reads itself. If it is lost, polling finds the message.

use crate::{lanes::Lane, store};
use onceward_db::{Db, listen::Heard};
use onceward_envelope::TenantId;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

const CHANNEL: &str = "onceward_wake";
/// A notification carries at most this many lanes; PostgreSQL allows 8000 bytes.
const LANES_PER_NOTICE: usize = 500;

/// Somebody who reads a queue.
pub trait Sleeper: Send + Sync {
    /// There is something in this lane.
    fn wake(&self, lane: &Lane);
    /// There may be something anywhere.
    fn wake_all(&self);
}

/// Where a lane belongs.
#[derive(Clone, Debug)]
pub struct LanePlace {
    /// The queue's number.
    pub queue_id: i32,
    /// The lane.
    pub lane: Lane,
}

/// Who sleeps, and who is to be woken.
pub struct Wakes {
    db: Db,
    sleepers: RwLock<HashMap<i32, Vec<Weak<dyn Sleeper>>>>,
    places: RwLock<HashMap<i32, LanePlace>>,
    to_notify: Mutex<BTreeSet<i32>>,
    notify: Notify,
    listening: AtomicBool,
}

impl Wakes {
    pub(crate) fn start(db: Db, interval_ms: u64) -> Arc<Self> {
        let wakes = Arc::new(Self {
            db,
            sleepers: RwLock::default(),
            places: RwLock::default(),
            to_notify: Mutex::default(),
            notify: Notify::new(),
            listening: AtomicBool::new(false),
        });
        tokio::spawn(notify_others(Arc::downgrade(&wakes), Duration::from_millis(interval_ms)));
        wakes
    }

    pub(crate) fn listen(self: &Arc<Self>) {
        if !self.listening.swap(true, Ordering::AcqRel) {
            tokio::spawn(hear_others(Arc::downgrade(self)));
        }
    }

    pub(crate) fn register(&self, queue_id: i32, sleeper: Weak<dyn Sleeper>) {
        let mut sleepers = self.sleepers.write().expect("no panic while held");
        let readers = sleepers.entry(queue_id).or_default();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(sleeper);
    }

    pub(crate) fn remember(&self, place: LanePlace) {
        self.places.write().expect("no panic while held").insert(place.lane.id, place);
    }

    /// Messages were committed to these lanes.
    pub fn committed(&self, lanes: impl IntoIterator<Item = i32>) {
        let mut elsewhere = Vec::new();
        for lane in lanes {
            if lane != 0 && !self.wake_here(lane) {
                elsewhere.push(lane);
            }
        }
        if !elsewhere.is_empty() {
            self.to_notify.lock().expect("no panic while held").extend(elsewhere);
            self.notify.notify_one();
        }
    }

    /// `false`: nobody here reads that lane's queue, or the lane is not known here.
    fn wake_here(&self, lane: i32) -> bool {
        let places = self.places.read().expect("no panic while held");
        let Some(place) = places.get(&lane) else {
            return false;
        };
        let sleepers = self.sleepers.read().expect("no panic while held");
        let mut awake = false;
        for sleeper in sleepers.get(&place.queue_id).into_iter().flatten().filter_map(Weak::upgrade) {
            sleeper.wake(&place.lane);
            awake = true;
        }
        awake
    }

    fn wake_everybody(&self) {
        let sleepers = self.sleepers.read().expect("no panic while held");
        for sleeper in sleepers.values().flatten().filter_map(Weak::upgrade) {
            sleeper.wake_all();
        }
    }

    async fn heard(&self, payload: &str) {
        let lanes: Vec<i32> = payload.split(',').filter_map(|lane| lane.parse().ok()).collect();
        let unknown: Vec<i32> = {
            let places = self.places.read().expect("no panic while held");
            lanes.iter().copied().filter(|lane| !places.contains_key(lane)).collect()
        };
        if !unknown.is_empty() && self.learn(&unknown).await.is_err() {
            return self.wake_everybody();
        }
        for lane in lanes {
            self.wake_here(lane);
        }
    }

    async fn learn(&self, lanes: &[i32]) -> Result<(), onceward_db::DbError> {
        let connection = self.db.connection().await?;
        for row in connection.query(store::LANE_INFO, &[&lanes]).await? {
            let Ok(tenant) = TenantId::new(row.get::<_, &str>(2)) else {
                continue;
            };
            self.remember(LanePlace {
                queue_id: row.get(1),
                lane: Lane { id: row.get(0), tenant, priority: row.get(3) },
            });
        }
        Ok(())
    }

    async fn send(&self, lanes: &[i32]) {
        for chunk in lanes.chunks(LANES_PER_NOTICE) {
            let payload = chunk.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let sent = async {
                let connection = self.db.connection().await?;
                connection.query(store::NOTIFY, &[&payload]).await
            };
            if let Err(error) = sent.await {
                tracing::debug!(%error, "could not notify; workers will find it by polling");
            }
        }
    }
}

async fn notify_others(wakes: Weak<Wakes>, interval: Duration) {
    loop {
        let Some(strong) = wakes.upgrade() else {
            return;
        };
        // The wait is bounded so that the task ends with its owner.
        let woken = tokio::time::timeout(Duration::from_secs(1), strong.notify.notified()).await;
        if woken.is_err() {
            continue;
        }
        let lanes: Vec<i32> = {
            let mut waiting = strong.to_notify.lock().expect("no panic while held");
            std::mem::take(&mut *waiting).into_iter().collect()
        };
        strong.send(&lanes).await;
        drop(strong);
        tokio::time::sleep(interval).await;
    }
}

async fn hear_others(wakes: Weak<Wakes>) {
    let Some(db) = wakes.upgrade().map(|strong| strong.db.clone()) else {
        return;
    };
    let mut listener = db.listen(CHANNEL);
    loop {
        let heard = tokio::time::timeout(Duration::from_secs(1), listener.next()).await;
        let Some(strong) = wakes.upgrade() else {
            return;
        };
        match heard {
            Ok(Some(Heard::Payload(payload))) => strong.heard(&payload).await,
            Ok(Some(Heard::Connected)) => strong.wake_everybody(),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

//! Wakes workers immediately, in this process and in others.
//!
//! A `NOTIFY` inside the publisher's transaction would serialise all commits. So it is sent afterwards, by one task,
//! for all commits of the last few milliseconds together, and not at all for queues that this process reads itself. If
//! it is lost, polling finds the message.

use crate::{
    controls::{ControlSnapshot, watch},
    lane_scheduler::Lane,
    queue_state::QueueState,
};
use onceward_db::{Db, DbError, listen::ListenEvent};
use onceward_envelope::TenantId;
use onceward_supervisor::{Supervisor, TaskError};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

// In `migrations/0004_lanes.sql`:
const LANE_INFO: &str = "SELECT lane_id, queue_id, tenant_id, priority FROM onceward.lane_info($1)";
const NOTIFY: &str = "SELECT pg_notify('onceward_wake', $1)";

const CHANNEL: &str = "onceward_wake";
/// The payload of a notification that pauses or rate limits have changed.
const CONTROLS: &str = "controls";
/// A notification carries at most this many lanes; PostgreSQL allows 8000 bytes.
const LANES_PER_NOTIFICATION: usize = 500;
/// The longest wait before a task checks whether its owner still exists.
const WAIT_STEP: Duration = Duration::from_secs(1);

/// A lane and the queue it belongs to.
#[derive(Clone, Debug)]
pub struct QueueLane {
    /// The queue's number.
    pub queue_id: i32,
    /// The lane.
    pub lane: Lane,
}

/// The queues that this process reads, and the lanes that other processes are to be notified of.
pub struct WakeHub {
    db: Db,
    /// The readers of each queue in this process.
    readers: RwLock<HashMap<i32, Vec<Weak<QueueState>>>>,
    lanes: RwLock<HashMap<i32, QueueLane>>,
    to_notify: Mutex<BTreeSet<i32>>,
    notify: Notify,
    listening: AtomicBool,
    /// What operators have set; `None` until it was loaded for the first time.
    controls: RwLock<Option<ControlSnapshot>>,
    controls_changed: Notify,
    supervisor: Supervisor,
}

impl WakeHub {
    pub(crate) fn start(db: Db, interval_ms: u64, supervisor: Supervisor) -> Arc<Self> {
        let hub = Arc::new(Self {
            db,
            readers: RwLock::default(),
            lanes: RwLock::default(),
            to_notify: Mutex::default(),
            notify: Notify::new(),
            listening: AtomicBool::new(false),
            controls: RwLock::default(),
            controls_changed: Notify::new(),
            supervisor,
        });
        hub.spawn_supervised("wake-notifier", move |hub| async move {
            send_notifications(hub, Duration::from_millis(interval_ms)).await;
            Ok(())
        });
        hub
    }

    pub(crate) fn listen(self: &Arc<Self>) {
        if !self.listening.swap(true, Ordering::AcqRel) {
            self.spawn_supervised("wake-listener", receive_notifications);
        }
    }

    /// Runs `work`, restarting it if it fails, until it finds that all references to this value are gone.
    fn spawn_supervised<F, Fut>(self: &Arc<Self>, name: &'static str, mut work: F)
    where
        F: FnMut(Weak<Self>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send,
    {
        let (supervisor, hub) = (self.supervisor.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            supervisor.run_to_end(name, &CancellationToken::new(), || work(hub.clone())).await;
        });
    }

    pub(crate) fn register(&self, queue_id: i32, reader: Weak<QueueState>) {
        let mut all = self.readers.write();
        if let (Some(controls), Some(reader)) = (&*self.controls.read(), reader.upgrade()) {
            reader.set_control(controls.of(queue_id));
        }
        let readers = all.entry(queue_id).or_default();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(reader);
    }

    pub(crate) fn add_lane(&self, lane: QueueLane) {
        self.lanes.write().insert(lane.lane.id, lane);
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Loads the controls and starts to follow their changes, unless that was done before.
    pub(crate) async fn load_controls(self: &Arc<Self>) -> Result<(), DbError> {
        if self.controls.read().is_some() {
            return Ok(());
        }
        let snapshot = ControlSnapshot::load(&self.db).await?;
        if self.controls.write().replace(snapshot).is_none() {
            self.spawn_supervised("controls", watch::run);
        }
        Ok(())
    }

    /// Waits for a notification that the controls have changed.
    pub(crate) async fn controls_changed(&self) {
        self.controls_changed.notified().await;
    }

    /// Passes new controls to every reader of this process.
    pub(crate) fn set_controls(&self, snapshot: ControlSnapshot) {
        let readers = self.readers.read();
        for (queue_id, readers) in &*readers {
            readers.iter().filter_map(Weak::upgrade).for_each(|reader| reader.set_control(snapshot.of(*queue_id)));
        }
        *self.controls.write() = Some(snapshot);
    }

    /// Wakes the readers of these lanes, to which messages were committed.
    pub fn committed(&self, lanes: impl IntoIterator<Item = i32>) {
        let mut elsewhere = Vec::new();
        for lane in lanes {
            if lane != 0 && !self.wake_local_readers(lane) {
                elsewhere.push(lane);
            }
        }
        if !elsewhere.is_empty() {
            self.to_notify.lock().extend(elsewhere);
            self.notify.notify_one();
        }
    }

    /// Returns `false` if this process has no reader of that lane's queue, or does not know the lane.
    fn wake_local_readers(&self, lane_id: i32) -> bool {
        let lanes = self.lanes.read();
        let Some(QueueLane { queue_id, lane }) = lanes.get(&lane_id) else {
            return false;
        };
        let all = self.readers.read();
        let mut woken = false;
        for reader in all.get(queue_id).into_iter().flatten().filter_map(Weak::upgrade) {
            reader.wake(lane);
            woken = true;
        }
        woken
    }

    /// Makes all readers of this process poll for work.
    fn wake_all_readers(&self) {
        for reader in self.readers.read().values().flatten().filter_map(Weak::upgrade) {
            reader.poll_now();
        }
    }

    async fn handle_notification(&self, payload: &str) {
        if payload == CONTROLS {
            return self.controls_changed.notify_one();
        }
        let lanes: Vec<i32> = payload.split(',').filter_map(|lane| lane.parse().ok()).collect();
        let unknown: Vec<i32> = {
            let known = self.lanes.read();
            lanes.iter().copied().filter(|lane| !known.contains_key(lane)).collect()
        };
        if !unknown.is_empty() && self.load_lanes(&unknown).await.is_err() {
            return self.wake_all_readers();
        }
        for lane in lanes {
            self.wake_local_readers(lane);
        }
    }

    async fn load_lanes(&self, lanes: &[i32]) -> Result<(), DbError> {
        let connection = self.db.connection().await?;
        for row in connection.query(LANE_INFO, &[&lanes]).await? {
            let Ok(tenant) = TenantId::new(row.get::<_, &str>(2)) else {
                continue;
            };
            let lane = Lane { id: row.get(0), tenant, priority: row.get(3) };
            self.add_lane(QueueLane { queue_id: row.get(1), lane });
        }
        Ok(())
    }

    async fn notify_lanes(&self, lanes: &[i32]) {
        for chunk in lanes.chunks(LANES_PER_NOTIFICATION) {
            let payload = chunk.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let sent = async {
                let connection = self.db.connection().await?;
                connection.query(NOTIFY, &[&payload]).await
            };
            if let Err(error) = sent.await {
                tracing::debug!(%error, "notifying other processes failed; they find the messages by polling");
            }
        }
    }
}

async fn send_notifications(hub: Weak<WakeHub>, interval: Duration) {
    loop {
        let Some(strong) = hub.upgrade() else {
            return;
        };
        // The wait is bounded so that the task ends with its owner.
        let woken = tokio::time::timeout(WAIT_STEP, strong.notify.notified()).await;
        if woken.is_err() {
            continue;
        }
        let lanes: Vec<i32> = std::mem::take(&mut *strong.to_notify.lock()).into_iter().collect();
        strong.notify_lanes(&lanes).await;
        drop(strong);
        tokio::time::sleep(interval).await;
    }
}

async fn receive_notifications(hub: Weak<WakeHub>) -> Result<(), TaskError> {
    let Some(db) = hub.upgrade().map(|strong| strong.db.clone()) else {
        return Ok(());
    };
    let mut listener = db.listen(CHANNEL);
    loop {
        let event = tokio::time::timeout(WAIT_STEP, listener.next()).await;
        let Some(strong) = hub.upgrade() else {
            return Ok(());
        };
        match event {
            Ok(Some(ListenEvent::Notified(payload))) => strong.handle_notification(&payload).await,
            Ok(Some(ListenEvent::Connected)) => {
                strong.wake_all_readers();
                strong.controls_changed.notify_one();
            }
            // The process is stopping.
            Ok(None) if db.is_closed() => return Ok(()),
            Ok(None) => return Err("the listening connection's task ended".into()),
            Err(_) => {}
        }
    }
}

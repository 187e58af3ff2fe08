//! One queue, read by one consumer.

use crate::{
    PostgresBusConfig,
    lanes::{Lane, LaneBook},
    lease,
    routes::DeclaredQueue,
    rows::{Message, Reader},
    scout::{self, LINGER, Scout},
    store,
    turn::LaneTurn,
    wake::{Sleeper, Wakes},
};
use async_trait::async_trait;
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_envelope::TenantId;
use onceward_transport::{Delivery, Intake, LeaseId, Leased, Settlement, Subscription, TransportError, Turn};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use uuid::Uuid;

/// A turn begun this often without end is handled carefully, one message at a time.
const SUSPICIOUS_STARTS: i32 = 2;

/// What the tasks of one consumer share.
pub(crate) struct Shared {
    pub name: String,
    pub queue_id: i32,
    pub scout: Scout,
    book: Mutex<LaneBook>,
    woken: Notify,
    /// Whether every lane was looked at once. Before that, a lane that somebody woke may be the least urgent of all.
    surveyed: AtomicBool,
}

impl Shared {
    /// The book knows all lanes with work now.
    pub(crate) fn surveyed(&self) {
        if !self.surveyed.swap(true, Ordering::AcqRel) {
            self.woken.notify_one();
        }
    }

    pub(crate) fn heat(&self, lane: &Lane) {
        if self.book.lock().expect("no panic while held").wake(lane) {
            self.woken.notify_one();
        }
    }

    /// The turn in this lane is over.
    pub(crate) fn finish(&self, lane: &Lane, more: bool) {
        if self.book.lock().expect("no panic while held").finish(lane, more) {
            self.woken.notify_one();
        }
    }

    fn pick(&self, sharers: usize, most: usize) -> Vec<Lane> {
        if !self.surveyed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut book = self.book.lock().expect("no panic while held");
        let fair_share = (book.hot() / sharers.max(1)).clamp(1, most);
        let mut picked = book.pick(fair_share);
        // A tenant's lower priorities wait for another turn, or they would share every turn with the
        // higher ones. The first of a tenant is its highest.
        let mut highest: HashMap<TenantId, i16> = HashMap::new();
        picked.retain(|lane| {
            let first = *highest.entry(lane.tenant.clone()).or_insert(lane.priority);
            let kept = lane.priority == first;
            if !kept {
                book.finish(lane, true);
            }
            kept
        });
        if book.hot() > 0 {
            self.woken.notify_one();
        }
        picked
    }
}

impl Sleeper for Shared {
    fn wake(&self, lane: &Lane) {
        self.heat(lane);
    }

    fn wake_all(&self) {
        self.scout.within(Duration::ZERO);
    }
}

/// The intake of a queue on this bus.
pub(crate) struct LaneQueue {
    /// Turns are its transactions.
    pub db: Db,
    /// For everything that must not wait for a turn to give its connection back.
    pub lookups: Db,
    pub queue: DeclaredQueue,
    pub subscription: Subscription,
    pub shared: Arc<Shared>,
    pub worker: String,
    config: PostgresBusConfig,
}

impl LaneQueue {
    pub(crate) fn open(
        db: Db,
        lookups: Db,
        config: PostgresBusConfig,
        wakes: Arc<Wakes>,
        queue: DeclaredQueue,
        subscription: Subscription,
    ) -> Self {
        let shared = Arc::new(Shared {
            name: subscription.queue.clone(),
            queue_id: queue.id,
            scout: Scout::new(),
            book: Mutex::default(),
            woken: Notify::new(),
            surveyed: AtomicBool::new(false),
        });
        let sleeper: Weak<Shared> = Arc::downgrade(&shared);
        wakes.register(queue.id, sleeper.clone());
        let poll = Duration::from_millis(config.poll_ms);
        tokio::spawn(recheck_waiting(lookups.clone(), queue.id));
        tokio::spawn(scout::scout(lookups.clone(), sleeper, poll));
        let worker = format!("{}-{}", std::process::id(), Uuid::now_v7().simple());
        Self { db, lookups, queue, subscription, shared, worker, config }
    }

    /// Locks and reads a fair share of the lanes among `sharers`. The caller settles, or drops it to hand everything back.
    pub(crate) async fn begin_turn<M: Message>(
        &self,
        limit: usize,
        sharers: usize,
        guide: &mut M::Guide,
    ) -> Result<Option<LaneTurn<M>>, TransportError> {
        let lanes = self.shared.pick(sharers, self.config.lanes_per_turn.min(limit.max(1)));
        if lanes.is_empty() {
            return Ok(None);
        }
        let guard = LaneGuard { shared: self.shared.clone(), lanes };
        let per_lane = i32::try_from((limit / guard.lanes.len()).max(1)).unwrap_or(i32::MAX);
        let ids: Vec<i32> = guard.lanes.iter().map(|lane| lane.id).collect();
        let mut tx = self.db.begin(Scope::platform("onceward")).await?;
        let mut reader = Reader::new(&guard.lanes, guide);
        if M::QUIET {
            tx.queue_statements(store::BE_A_RELAY);
            let locked: Vec<i32> = tx.query_one(store::LOCK_LANES, &[&ids]).await?.get(0);
            tx.query_each(store::TAKE_OUTBOX, &[&locked, &per_lane], |row| reader.add(row)).await?;
        } else {
            tx.query_each(store::TAKE_TURNS, &[&ids, &per_lane], |row| reader.add(row)).await?;
        }
        let read = reader.finish()?;
        let turn = LaneTurn::new(self, tx, guard, read, per_lane);
        turn.or_nothing().await
    }

    /// Waits until there may be something to do.
    pub(crate) async fn woken(&self, most: Duration) {
        let _ = tokio::time::timeout(most, self.shared.woken.notified()).await;
    }

    /// Notes that these turns are begun, where a crash of this process cannot undo it.
    pub(crate) async fn note_start(&self, turn: &LaneTurn) -> Result<(), DbError> {
        let (lanes, turns) = turn.started_lanes();
        let connection = self.lookups.connection().await?;
        // The numbers are ours, so they can be in the text; and a lost note costs one more try, so it need not be flushed.
        connection
            .batch(&format!(
                "BEGIN; SET LOCAL synchronous_commit = off; SELECT onceward.note_start('{lanes}', '{turns}'); COMMIT"
            ))
            .await
    }

    pub(crate) fn is_suspicious(starts: i32) -> bool {
        starts >= SUSPICIOUS_STARTS
    }

    /// How often the first message of a turn was handled alone, as far as its starts tell. The first
    /// ones of a lane that was not careful yet were made together with its neighbours, so they are
    /// not held against it.
    pub(crate) fn starts_alone(starts: i32, was_careful: bool) -> u32 {
        let together = if was_careful { 0 } else { SUSPICIOUS_STARTS };
        (starts - together).max(0).unsigned_abs()
    }
}

async fn recheck_waiting(db: Db, queue_id: i32) {
    let rechecked = async {
        let connection = db.connection().await?;
        connection.query(store::RECHECK_WAITING, &[&queue_id]).await
    };
    if let Err(error) = rechecked.await {
        tracing::debug!(%error, "could not recheck waiting messages; they come by themselves");
    }
}

/// Lanes picked from the book; they go back to it whatever happens.
pub(crate) struct LaneGuard {
    shared: Arc<Shared>,
    lanes: Vec<Lane>,
}

impl LaneGuard {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Gives the lanes back; `more` tells for each whether there may be more in it.
    pub(crate) fn release(&mut self, more: impl Fn(i32) -> bool) {
        let mut dry = false;
        for lane in self.lanes.drain(..) {
            let more = more(lane.id);
            dry |= !more;
            self.shared.finish(&lane, more);
        }
        if dry {
            self.shared.scout.within(LINGER);
        }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        // Not released: the turn failed. The messages are still there for whoever looks next.
        self.release(|_| false);
    }
}

#[async_trait]
impl Intake for LaneQueue {
    async fn take(&self, limit: usize) -> Result<Option<Box<dyn Turn>>, TransportError> {
        let Some(turn) = self.begin_turn::<Delivery>(limit, self.subscription.concurrency, &mut ()).await? else {
            return Ok(None);
        };
        if self.subscription.isolate_killers {
            self.note_start(&turn).await?;
        }
        Ok(Some(Box::new(turn)))
    }

    async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<Leased>, TransportError> {
        match self.begin_turn(limit, self.subscription.concurrency, &mut ()).await? {
            Some(turn) => lease::lease_turn(self, turn, lease).await,
            None => Ok(Vec::new()),
        }
    }

    async fn extend(&self, leases: &[LeaseId], by: Duration) -> Result<Vec<LeaseId>, TransportError> {
        lease::extend(self, leases, by).await
    }

    async fn settle_lease(&self, tx: &mut Tx, leased: &Leased, settlement: Settlement) -> Result<bool, TransportError> {
        lease::settle(self, tx, leased, settlement).await
    }

    async fn wait(&self, most: Duration) {
        self.woken(most).await;
    }

    fn nudge(&self) {
        self.shared.scout.within(Duration::ZERO);
    }
}

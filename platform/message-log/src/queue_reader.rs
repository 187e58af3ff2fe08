//! One queue, read by one consumer, possibly from several tasks at once.

use crate::{
    BusError, MessageLog, MessageLogConfig,
    controls::rate::{self, Permission, Permits},
    lane_scheduler::Lane,
    lease::{self, LeaseId, LeasedMessage},
    queue_state::QueueState,
    routes::DeclaredQueue,
    settle::ConsumerIdentity,
    turn::{LaneTurn, QueueTurn},
    turn_message::TurnMessage,
    turn_rows::RowReader,
    work_poller::{self, LINGER},
};
use onceward_broker::{Delivery, Settlement};
use onceward_db::{Db, DbError, Scope, Tx, lock_class};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

// In `migrations/0007_take_turns.sql`:
const TAKE_TURNS: &str = "SELECT * FROM onceward.take_turns($1, $2)";
/// A single statement, so that it is a transaction of its own. A lost record costs one more try, so it need not be
/// flushed.
const NOTE_START: &str = "SELECT set_config('synchronous_commit', 'off', true), onceward.note_start($1, $2)";
const RECHECK_WAITING: &str = "SELECT onceward.recheck_waiting($1)";

/// Marks a transaction as a relay's and sets how its statements are planned: by keys, whatever the statistics suggest.
const MARK_AS_RELAY: &str = "
    SET LOCAL onceward.relay = 'on';
    SET LOCAL plan_cache_mode = force_generic_plan;
    SET LOCAL enable_seqscan = off;
    SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off";
/// The lock of `onceward.take_turns`. The second parameter is the lock class.
const LOCK_LANES: &str = "
    SELECT ARRAY(
        SELECT l
        FROM unnest($1::int[]) AS l
        WHERE pg_try_advisory_xact_lock($2, l))";
/// Does the same as `onceward.take_turns` after the lock, but its rows come straight from the log.
const TAKE_OUTBOX: &str = "
    WITH place AS MATERIALIZED (
        SELECT *
        FROM onceward.places($1, $2, true))
    SELECT p.lane_id, p.about, p.seq, p.created_at, p.occurred_at, p.id, p.version, p.event_type, p.topic,
           p.ordering_key, p.idempotency_key, p.correlation_uuid, p.correlation_id, p.causation_id, p.headers,
           p.payload
    FROM place p
    UNION ALL
    SELECT p.lane_id,
           CASE WHEN p.has_cancelled AND onceward.is_cancelled(p.lane_id, m.seq)
                THEN json_build_object('cancelled', true)
                WHEN m.ordering_key IS NOT NULL AND p.has_blocked AND onceward.is_blocked(p.lane_id, m.ordering_key)
                THEN json_build_object('tenant_id', m.tenant_id, 'blocked', true)
                WHEN m.tenant_id <> p.tenant_id THEN json_build_object('tenant_id', m.tenant_id) END,
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic,
           m.ordering_key, m.idempotency_key, m.correlation_uuid, m.correlation_id, m.causation_id, m.headers,
           m.payload
    FROM place p
    CROSS JOIN LATERAL (
        SELECT *
        FROM onceward.message_to_carry m
        WHERE m.lane_id = p.lane_id AND m.seq > p.last_seq
        ORDER BY m.seq
        LIMIT $2) m
    WHERE p.seq IS NULL";

/// A turn started this many times without finishing is handled carefully, one message at a time; so is a message that
/// lost this many leases.
const SUSPICIOUS_STARTS: i32 = 2;

/// A consumer's subscription to a queue.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The consumer's name; it appears in dead letters and metrics.
    pub consumer: String,
    /// The queue.
    pub queue: String,
    /// Keep the order of keys. Without it, a waiting message blocks no other.
    pub ordered: bool,
    /// A dead letter holds its key: followers wait until it is requeued or released. Without order nothing is held.
    pub holds_keys: bool,
    /// How many turns or leases will be requested concurrently.
    pub concurrency: usize,
    /// Count how often a turn starts, so that a message that kills its workers is found and isolated.
    pub isolate_killers: bool,
}

/// Reads one queue of the message log.
pub struct QueueReader {
    /// The handle whose transactions are the turns.
    db: Db,
    /// For everything that must not wait for a turn to release its connection.
    pub(crate) lookups: Db,
    queue: DeclaredQueue,
    pub(crate) subscription: Subscription,
    pub(crate) state: Arc<QueueState>,
    /// Identifies this reader in the leases it holds.
    pub(crate) worker: String,
    config: MessageLogConfig,
}

impl QueueReader {
    pub(crate) fn open(log: &MessageLog, queue: DeclaredQueue, subscription: Subscription) -> Self {
        let (db, lookups, config) = (log.db.clone(), log.lookups.clone(), log.config);
        let state = Arc::new(QueueState::new(subscription.queue.clone(), queue.id));
        log.wake_hub.register(queue.id, Arc::downgrade(&state));
        tokio::spawn(recheck_waiting(lookups.clone(), queue.id));
        let poll = work_poller::run(log.supervisor.clone(), lookups.clone(), Arc::downgrade(&state), config.poll_ms);
        tokio::spawn(poll);
        let worker = format!("{}-{}", std::process::id(), Uuid::now_v7().simple());
        Self { db, lookups, queue, subscription, state, worker, config }
    }

    /// Takes up to `limit` messages, to be handled in the returned turn's transaction. Returns `None` if nothing is
    /// due.
    pub async fn take(&self, limit: usize) -> Result<Option<QueueTurn>, BusError> {
        let Some(turn) = self.begin_turn::<Delivery>(limit, self.subscription.concurrency, &mut ()).await? else {
            return Ok(None);
        };
        if self.subscription.isolate_killers {
            self.record_start(&turn).await?;
        }
        Ok(Some(QueueTurn(turn)))
    }

    /// Takes up to `limit` messages that no other worker receives for `lease`, or longer if it is extended in time.
    pub async fn lease(&self, limit: usize, lease: Duration) -> Result<Vec<LeasedMessage>, BusError> {
        match self.begin_turn(limit, self.subscription.concurrency, &mut ()).await? {
            Some(turn) => lease::lease_turn(self, turn, lease).await,
            None => Ok(Vec::new()),
        }
    }

    /// Extends leases; returns those that are still held.
    pub async fn extend(&self, leases: &[LeaseId], by: Duration) -> Result<Vec<LeaseId>, BusError> {
        lease::extend(self, leases, by).await
    }

    /// Starts handling a message that must be handled [alone](LeasedMessage::alone). It counts as a delivery if its
    /// worker dies now. Returns `false` if the lease was lost.
    pub async fn start_alone(&self, lease: LeaseId) -> Result<bool, BusError> {
        lease::start_alone(self, lease).await
    }

    /// Settles a leased message within `tx`. Returns `false` if the lease was lost; `tx` must then be rolled back.
    pub async fn settle_lease(
        &self,
        tx: &mut Tx,
        leased: &LeasedMessage,
        settlement: Settlement,
    ) -> Result<bool, BusError> {
        lease::settle(self, tx, leased, settlement).await
    }

    /// Waits until messages may be available, at most for `most`.
    pub async fn wait(&self, most: Duration) {
        let _ = tokio::time::timeout(most, self.state.woken.notified()).await;
    }

    /// Polls for work as soon as possible: a settled lease was committed, so messages behind it can be taken.
    pub fn poll_now(&self) {
        self.state.poll_now();
    }

    /// Locks and reads a fair share of the lanes among `sharers`. The caller settles the turn, or drops it to return
    /// everything.
    pub(crate) async fn begin_turn<M: TurnMessage>(
        &self,
        limit: usize,
        sharers: usize,
        context: &mut M::Context,
    ) -> Result<Option<LaneTurn<M>>, BusError> {
        let lanes = self.state.pick(sharers, self.config.lanes_per_turn.min(limit.max(1)));
        if lanes.is_empty() {
            return Ok(None);
        }
        let mut picked = PickedLanes { queue: self.state.clone(), lanes };
        let Some((limit, permits)) = self.permitted(&mut picked, limit).await? else {
            return Ok(None);
        };
        let turn = self.read_lanes(picked, limit, context).await;
        if let Some(permits) = permits {
            let used = turn.as_ref().map_or(0, |turn| turn.as_ref().map_or(0, LaneTurn::len));
            permits.return_unused(&self.lookups, used).await;
        }
        turn
    }

    /// Returns how many of the `limit` messages the queue's rate limits allow; `None` if no message is allowed now. Lanes
    /// that need a turn of their own are returned to the scheduler.
    async fn permitted(
        &self,
        picked: &mut PickedLanes,
        limit: usize,
    ) -> Result<Option<(usize, Option<Permits>)>, BusError> {
        let control = match &*self.state.control.lock() {
            control if control.has_limits() => control.clone(),
            _ => return Ok(Some((limit, None))),
        };
        let (same, others) = rate::lanes_with_same_limit(&control, std::mem::take(&mut picked.lanes));
        picked.lanes = same;
        others.iter().for_each(|lane| self.state.finish(lane, true));
        match rate::take(&self.lookups, self.state.queue_id, &control, &picked.lanes, limit).await? {
            Permission::Granted(permits) => {
                // A lane is read for one message at least.
                let beyond = picked.lanes.split_off(permits.count.min(picked.lanes.len()));
                beyond.iter().for_each(|lane| self.state.finish(lane, true));
                Ok(Some((permits.count, Some(permits))))
            }
            Permission::Wait(wait, tenant) => {
                self.state.throttle(wait, tenant);
                picked.release(|_| true);
                Ok(None)
            }
        }
    }

    async fn read_lanes<M: TurnMessage>(
        &self,
        picked: PickedLanes,
        limit: usize,
        context: &mut M::Context,
    ) -> Result<Option<LaneTurn<M>>, BusError> {
        let per_lane = i32::try_from((limit / picked.lanes.len()).max(1)).unwrap_or(i32::MAX);
        let ids: Vec<i32> = picked.lanes.iter().map(|lane| lane.id).collect();
        let mut tx = self.db.begin(Scope::platform("onceward")).await?;
        let mut reader = RowReader::new(&picked.lanes, context);
        if M::QUIET {
            tx.queue_statements(MARK_AS_RELAY);
            let locked: Vec<i32> = tx.query_one(LOCK_LANES, &[&ids, &lock_class::LANE]).await?.get(0);
            tx.query_each(TAKE_OUTBOX, &[&locked, &per_lane], |row| reader.add(row)).await?;
        } else {
            tx.query_each(TAKE_TURNS, &[&ids, &per_lane], |row| reader.add(row)).await?;
        }
        let lanes = reader.finish()?;
        LaneTurn::new(self, tx, picked, lanes, per_lane).or_nothing().await
    }

    /// Records that these turns have started, in a way that a crash of this process cannot undo.
    async fn record_start(&self, turn: &LaneTurn) -> Result<(), DbError> {
        let (lanes, turns) = turn.started_lanes();
        let connection = self.lookups.connection().await?;
        connection.query(NOTE_START, &[&lanes, &turns]).await.map(drop)
    }

    pub(crate) fn identity(&self) -> ConsumerIdentity {
        let identity = ConsumerIdentity::of(&self.subscription.consumer, &self.queue);
        let Subscription { ordered, holds_keys, .. } = self.subscription;
        ConsumerIdentity { ordered, holds_keys, ..identity }
    }

    pub(crate) fn is_suspicious(starts: i32) -> bool {
        starts >= SUSPICIOUS_STARTS
    }

    /// Returns how many times the first message of a turn was handled alone, according to the starts of its turn. The
    /// first starts of a lane that was not careful yet were shared with its neighbours, so they do not count against
    /// the message.
    pub(crate) fn starts_alone(starts: i32, was_careful: bool) -> u32 {
        let together = if was_careful { 0 } else { SUSPICIOUS_STARTS };
        (starts - together).max(0).unsigned_abs()
    }
}

async fn recheck_waiting(db: Db, queue_id: i32) {
    let rechecked = async {
        let connection = db.connection().await?;
        connection.query(RECHECK_WAITING, &[&queue_id]).await
    };
    if let Err(error) = rechecked.await {
        tracing::debug!(%error, "rechecking messages of unknown types failed; they are retried when they are due");
    }
}

/// Lanes picked from the scheduler. They are returned to it in every case.
pub(crate) struct PickedLanes {
    queue: Arc<QueueState>,
    lanes: Vec<Lane>,
}

impl PickedLanes {
    pub(crate) fn queue(&self) -> &QueueState {
        &self.queue
    }

    /// Returns the lanes to the scheduler. `more` reports for each whether it may have more work.
    pub(crate) fn release(&mut self, more: impl Fn(i32) -> bool) {
        let mut ran_empty = false;
        for lane in self.lanes.drain(..) {
            let more = more(lane.id);
            ran_empty |= !more;
            self.queue.finish(&lane, more);
        }
        if ran_empty {
            self.queue.poller.poll_within(LINGER);
        }
    }
}

impl Drop for PickedLanes {
    fn drop(&mut self) {
        // Not released, so the turn failed. The messages remain for the next turn.
        self.release(|_| false);
    }
}

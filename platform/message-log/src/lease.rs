//! Leases: a message is deferred under a lease number, and the holder of that number may settle it.

use crate::{
    BusError,
    queue_reader::QueueReader,
    settle::{self, SettlementWrites},
    turn::LaneTurn,
    turn_message::{DeferredState, MessageLocation},
};
use onceward_broker::{Delivery, Settlement};
use onceward_db::Tx;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

// In `migrations/0010_lease.sql`:
const HEARTBEAT: &str = "SELECT * FROM onceward.heartbeat($1, $2, $3)";
const START_ALONE: &str = "SELECT onceward.start_alone($1, $2)";
const END_LEASE: &str = "SELECT onceward.end_lease($1, $2)";
const RETURN_LEASE: &str = "SELECT onceward.return_lease($1, $2)";

/// Identifies a lease; the number grows with every new lease of the same message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The deferred message.
    pub id: i64,
    /// The number of this lease.
    pub number: i64,
}

/// A message that one worker holds for a limited time.
#[derive(Clone, Debug)]
pub struct LeasedMessage {
    /// The lease.
    pub lease: LeaseId,
    /// The message.
    pub delivery: Delivery,
    /// Workers died while they held it. It is started with [`QueueReader::start_alone`] when its consumer holds no
    /// other message in this process, and finished before the next lease is taken, so that nothing else dies with it.
    pub alone: bool,
}

/// The error recorded for an attempt whose worker neither settled nor extended its lease.
const LEASE_LOST: &str = "the worker that held it let its lease expire";

/// Leases all messages of the turn, but only the first of each key, and commits.
pub(crate) async fn lease_turn(
    queue: &QueueReader,
    mut turn: LaneTurn,
    lease: Duration,
) -> Result<Vec<LeasedMessage>, BusError> {
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    let mut keys = HashSet::new();
    let mut behind = Vec::new();
    let mut fresh = HashMap::new();
    let mut leased = Vec::new();
    let mut writes = SettlementWrites::default();
    for (location, delivery) in turn.take_messages() {
        let key = delivery.ordering_key.clone().filter(|_| queue.subscription.ordered);
        if key.is_some_and(|key| !keys.insert((location.lane_id, key))) {
            behind.push((location, delivery, Settlement::Behind));
            continue;
        }
        match &location.deferred {
            Some(row) => {
                if row.lease_expired {
                    let name = &queue.subscription.queue;
                    writes.attempts.push(settle::attempt(
                        name,
                        &delivery,
                        row.attempts + row.expired_leases,
                        LEASE_LOST,
                    ));
                }
                writes.redefer.push(renewed_lease(queue, row, lease_ms));
                let lease = LeaseId { id: row.id, number: row.lease + 1 };
                leased.push(LeasedMessage { lease, delivery, alone: row.is_suspicious() });
            }
            None => {
                writes.defer.push(new_lease(queue, &location, &delivery, lease_ms));
                fresh.insert((location.lane_id, location.seq), delivery);
            }
        }
    }
    let tx = turn.transaction();
    if !writes.attempts.is_empty() {
        tx.query(settle::NOTE_ATTEMPTS, &[&Value::from(writes.attempts)]).await?;
    }
    if !writes.redefer.is_empty() {
        tx.query(settle::REDEFER, &[&Value::from(writes.redefer)]).await?;
    }
    if !writes.defer.is_empty() {
        for row in tx.query(settle::DEFER, &[&Value::from(writes.defer)]).await? {
            if let Some(delivery) = fresh.remove(&(row.get(0), row.get(1))) {
                let lease = LeaseId { id: row.get(2), number: 1 };
                leased.push(LeasedMessage { lease, delivery, alone: false });
            }
        }
    }
    turn.finish(behind, &[]).await?;
    Ok(leased)
}

/// Returns the row of a message that is leased for the first time.
fn new_lease(queue: &QueueReader, location: &MessageLocation, delivery: &Delivery, lease_ms: i64) -> Value {
    settle::new_deferred(
        location,
        delivery,
        json!({"state": "leased", "due_in_ms": lease_ms, "blocks": queue.subscription.ordered,
               "attempts": 0, "lease": 1, "worker": queue.worker}),
    )
}

/// Returns the row of a deferred message that is leased again.
fn renewed_lease(queue: &QueueReader, row: &DeferredState, lease_ms: i64) -> Value {
    let last_error = row.lease_expired.then_some(LEASE_LOST);
    json!({"id": row.id, "state": "leased", "due_in_ms": lease_ms,
           "blocks": queue.subscription.ordered, "attempts": row.attempts, "lost": row.expired_leases,
           "lease": row.lease + 1, "worker": queue.worker, "last_error": last_error})
}

pub(crate) async fn extend(queue: &QueueReader, leases: &[LeaseId], by: Duration) -> Result<Vec<LeaseId>, BusError> {
    let ids: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
    let numbers: Vec<i64> = leases.iter().map(|lease| lease.number).collect();
    let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    let connection = queue.lookups.connection().await?;
    let rows = connection.query(HEARTBEAT, &[&ids, &numbers, &by_ms]).await?;
    let held: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
    Ok(leases.iter().copied().filter(|lease| held.contains(&lease.id)).collect())
}

/// Records that the handling of a suspicious message begins. Returns `false` if the lease is no longer held.
pub(crate) async fn start_alone(queue: &QueueReader, lease: LeaseId) -> Result<bool, BusError> {
    let connection = queue.lookups.connection().await?;
    Ok(connection.query(START_ALONE, &[&lease.id, &lease.number]).await?[0].get(0))
}

pub(crate) async fn settle(
    queue: &QueueReader,
    tx: &mut Tx,
    leased: &LeasedMessage,
    settlement: Settlement,
) -> Result<bool, BusError> {
    let LeaseId { id, number } = leased.lease;
    let attempts = i32::try_from(leased.delivery.attempt).unwrap_or(i32::MAX);
    let returned = |state: &str, after: Duration, attempts: i32, error: &str| {
        json!({"id": id, "state": state, "due_in_ms": after.as_millis() as u64, "blocks": queue.subscription.ordered,
               "attempts": attempts, "lease": number, "last_error": settle::storable(error)})
    };
    if let Some(attempt) = settle::failed_attempt(&queue.subscription.queue, &leased.delivery, &settlement) {
        tx.query(settle::NOTE_ATTEMPTS, &[&Value::from(vec![attempt])]).await?;
    }
    let row = match settlement {
        Settlement::Done => tx.query_one(END_LEASE, &[&id, &number]).await?,
        Settlement::Dead { reason, error } => {
            let identity = queue.identity();
            let mut letter = settle::dead_letter(&identity, &leased.delivery, reason, &error);
            letter["deferred_id"] = id.into();
            if identity.holds(leased.delivery.ordering_key.as_deref()) {
                // The row stays and becomes the one that holds the key.
                let mut row = settle::held(attempts, &settle::storable(&error));
                (row["id"], row["lease"]) = (id.into(), number.into());
                let returned = tx.query_one(RETURN_LEASE, &[&row, &number]).await?;
                tx.query(settle::BURY, &[&Value::from(vec![letter])]).await?;
                returned
            } else {
                tx.query(settle::BURY, &[&Value::from(vec![letter])]).await?;
                tx.query_one(END_LEASE, &[&id, &number]).await?
            }
        }
        Settlement::Retry { after, error } => {
            let row = returned("retry", after, attempts, &error);
            tx.query_one(RETURN_LEASE, &[&row, &number]).await?
        }
        Settlement::Wait { after, reason } => {
            let row = returned("waiting", after, attempts - 1, &reason);
            tx.query_one(RETURN_LEASE, &[&row, &number]).await?
        }
        Settlement::Unknown { after, reason } => {
            let row = returned("unknown", after, attempts - 1, &reason);
            tx.query_one(RETURN_LEASE, &[&row, &number]).await?
        }
        Settlement::Behind => {
            unreachable!("a leased message is the first of its key")
        }
    };
    Ok(row.get(0))
}

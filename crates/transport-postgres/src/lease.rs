//! Leases: a message is moved aside under a number, and whoever holds the number may settle it.

use crate::{
    queue::LaneQueue,
    rows::{Deferred, Place},
    settle::{self, Identity, Writes},
    store,
    turn::LaneTurn,
};
use onceward_db::Tx;
use onceward_transport::{Delivery, LeaseId, Leased, Settlement, TransportError};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

impl LaneQueue {
    pub(crate) fn identity(&self) -> Identity {
        Identity { ordered: self.subscription.ordered, ..Identity::of(&self.subscription.consumer, &self.queue) }
    }
}

/// Leases everything the turn took, but of each key only the first, and commits.
pub(crate) async fn lease_turn(
    queue: &LaneQueue,
    mut turn: LaneTurn,
    lease: Duration,
) -> Result<Vec<Leased>, TransportError> {
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    let mut keys = HashSet::new();
    let mut behind = Vec::new();
    let mut fresh = HashMap::new();
    let mut leased = Vec::new();
    let mut writes = Writes::default();
    for (place, delivery) in turn.take_messages() {
        let key = delivery.ordering_key.clone().filter(|_| queue.subscription.ordered);
        if key.is_some_and(|key| !keys.insert((place.lane_id, key))) {
            behind.push((place, delivery, Settlement::Behind));
            continue;
        }
        match &place.deferred {
            Some(row) => {
                writes.redefer.push(again(queue, row, lease_ms));
                let lease = LeaseId { id: row.id, number: row.lease + 1 };
                leased.push(Leased { lease, delivery });
            }
            None => {
                writes.defer.push(first(queue, &place, &delivery, lease_ms));
                fresh.insert((place.lane_id, place.seq), delivery);
            }
        }
    }
    let tx = turn.transaction();
    if !writes.redefer.is_empty() {
        tx.query(store::REDEFER, &[&Value::from(writes.redefer)]).await?;
    }
    if !writes.defer.is_empty() {
        for row in tx.query(store::DEFER, &[&Value::from(writes.defer)]).await? {
            if let Some(delivery) = fresh.remove(&(row.get(0), row.get(1))) {
                leased.push(Leased { lease: LeaseId { id: row.get(2), number: 1 }, delivery });
            }
        }
    }
    turn.finish(behind, &[]).await?;
    Ok(leased)
}

fn first(queue: &LaneQueue, place: &Place, delivery: &Delivery, lease_ms: i64) -> Value {
    settle::new_deferred(
        place,
        delivery,
        json!({"state": "leased", "due_in_ms": lease_ms, "blocks": queue.subscription.ordered,
               "attempts": 0, "lease": 1, "worker": queue.worker}),
    )
}

fn again(queue: &LaneQueue, row: &Deferred, lease_ms: i64) -> Value {
    let lost = row.rescued.then_some("the worker that held it let its lease run out");
    json!({"id": row.id, "state": "leased", "due_in_ms": lease_ms,
           "blocks": queue.subscription.ordered, "attempts": row.attempts + i32::from(row.rescued),
           "lease": row.lease + 1, "worker": queue.worker, "last_error": lost})
}

pub(crate) async fn extend(
    queue: &LaneQueue,
    leases: &[LeaseId],
    by: Duration,
) -> Result<Vec<LeaseId>, TransportError> {
    let ids: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
    let numbers: Vec<i64> = leases.iter().map(|lease| lease.number).collect();
    let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    let connection = queue.lookups.connection().await?;
    let rows = connection.query(store::HEARTBEAT, &[&ids, &numbers, &by_ms]).await?;
    let held: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
    Ok(leases.iter().copied().filter(|lease| held.contains(&lease.id)).collect())
}

pub(crate) async fn settle(
    queue: &LaneQueue,
    tx: &mut Tx,
    leased: &Leased,
    settlement: Settlement,
) -> Result<bool, TransportError> {
    let LeaseId { id, number } = leased.lease;
    let attempts = i32::try_from(leased.delivery.attempt).unwrap_or(i32::MAX);
    let back = |state: &str, after: Duration, attempts: i32, error: &str| {
        json!({"id": id, "state": state, "due_in_ms": after.as_millis() as u64, "blocks": queue.subscription.ordered,
               "attempts": attempts, "lease": number, "last_error": error})
    };
    let row = match settlement {
        Settlement::Done => tx.query_one(store::END_LEASE, &[&id, &number]).await?,
        Settlement::Dead { reason, error } => {
            let mut letter = settle::dead_letter(&queue.identity(), &leased.delivery, reason, &error);
            letter["deferred_id"] = id.into();
            tx.query(store::BURY, &[&Value::from(vec![letter])]).await?;
            tx.query_one(store::END_LEASE, &[&id, &number]).await?
        }
        Settlement::Retry { after, error } => {
            let row = back("retry", after, attempts, &error);
            tx.query_one(store::RETURN_LEASE, &[&row, &number]).await?
        }
        Settlement::Wait { after, reason } => {
            let row = back("waiting", after, attempts - 1, &reason);
            tx.query_one(store::RETURN_LEASE, &[&row, &number]).await?
        }
        Settlement::Behind => {
            unreachable!("a leased message is the first of its key")
        }
    };
    Ok(row.get(0))
}

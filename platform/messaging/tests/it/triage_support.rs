//! Handlers that fail until they are repaired, and helpers for triage.

use crate::support::{Calls, Probe, count};
use onceward::{
    Db, Failure,
    message_log::triage::{self, DeadLetterFilter, DeadLetterStatus, Operator, RequeueOptions, TriageOutcome},
};
use onceward_testkit::eventually;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_postgres::Client;

/// A fault that lasts until the test repairs it.
#[derive(Clone, Default)]
pub struct Repair(Arc<AtomicBool>);

impl Repair {
    pub fn done(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Creates a handler that fails permanently on every message until it is repaired.
pub fn failing_handler() -> (Probe, Calls, Repair) {
    failing_for(|_| true)
}

/// The same, only for messages whose names match.
pub fn failing_for(names: fn(&str) -> bool) -> (Probe, Calls, Repair) {
    let repair = Repair::default();
    let repaired = repair.clone();
    let (probe, calls) = Probe::new(move |_, seen| {
        let fails = names(&seen.name) && !repaired.is_done();
        Box::pin(async move { if fails { Err(Failure::permanent("broken")) } else { Ok(()) } })
    });
    (probe, calls, repair)
}

pub fn operator() -> Operator {
    Operator { name: "olga".into(), why: "the handler is repaired".into() }
}

/// Returns every dead letter that is neither requeued nor quarantined, in the order of publication.
pub async fn all_dead_letters(db: &Db) -> Vec<i64> {
    let dead = DeadLetterFilter { status: Some(DeadLetterStatus::Dead), ..DeadLetterFilter::default() };
    triage::in_order(db, &dead, 100_000).await.expect("letters can be found")
}

/// Returns the dead letters of messages with these names, in this order.
pub async fn dead_letters_named(owner: &Client, names: &[&str]) -> Vec<i64> {
    let mut ids = Vec::new();
    for name in names {
        let sql =
            "SELECT id FROM onceward.dead_letters WHERE message->'payload'->>'name' = $1 ORDER BY id DESC LIMIT 1";
        ids.push(owner.query_one(sql, &[name]).await.expect("there is such a letter").get(0));
    }
    ids
}

pub async fn requeue(db: &Db, ids: &[i64]) -> Vec<TriageOutcome> {
    requeue_with(db, ids, &RequeueOptions::default()).await
}

pub async fn requeue_with(db: &Db, ids: &[i64], options: &RequeueOptions) -> Vec<TriageOutcome> {
    let mut all = Vec::new();
    let requeued = triage::requeue(db, ids, options, &operator(), |outcomes| all.extend(outcomes)).await;
    requeued.expect("letters can be requeued");
    all
}

pub async fn release(db: &Db, ids: &[i64], rehearse: bool) -> Vec<TriageOutcome> {
    let mut all = Vec::new();
    let released = triage::release(db, ids, &operator(), rehearse, |outcomes| all.extend(outcomes)).await;
    released.expect("letters can be released");
    all
}

/// Marks everything that is waiting as due now.
pub async fn make_due(owner: &Client) {
    let sql = "UPDATE onceward.deferred SET due_at = clock_timestamp() WHERE due_at IS NOT NULL";
    owner.execute(sql, &[]).await.expect("the owner may");
}

/// Waits until `wanted` messages are deferred in this state.
pub async fn deferred_reaches(owner: &Client, state: &str, wanted: i64) {
    let sql = format!("SELECT count(*) FROM onceward.deferred WHERE state = '{state}'");
    eventually(&format!("{wanted} messages are {state}"), || async {
        (count(owner, &sql).await >= wanted).then_some(())
    })
    .await;
}

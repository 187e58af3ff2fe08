//! Handlers that are broken until they are repaired, and hands that triage.

use crate::support::{Calls, Probe, count};
use onceward::{
    Db, Failure,
    transport_postgres::triage::{self, Fate, Filter, Operator, Requeue, Status},
};
use onceward_testkit::eventually;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_postgres::Client;

/// What is broken, until the test repairs it.
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

/// A handler that gives up on every message until it is repaired.
pub fn broken() -> (Probe, Calls, Repair) {
    broken_for(|_| true)
}

/// The same, for messages of some names only.
pub fn broken_for(names: fn(&str) -> bool) -> (Probe, Calls, Repair) {
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

/// Every letter that nobody has dealt with, in the order of publication.
pub async fn all_dead(db: &Db) -> Vec<i64> {
    let dead = Filter { status: Some(Status::Dead), ..Filter::default() };
    triage::in_order(db, &dead, 100_000).await.expect("letters can be found")
}

/// The letters of messages with these names, in this order.
pub async fn letters_of(owner: &Client, names: &[&str]) -> Vec<i64> {
    let mut ids = Vec::new();
    for name in names {
        let sql =
            "SELECT id FROM onceward.dead_letters WHERE message->'payload'->>'name' = $1 ORDER BY id DESC LIMIT 1";
        ids.push(owner.query_one(sql, &[name]).await.expect("there is such a letter").get(0));
    }
    ids
}

pub async fn requeue(db: &Db, ids: &[i64]) -> Vec<Fate> {
    requeue_with(db, ids, &Requeue::default()).await
}

pub async fn requeue_with(db: &Db, ids: &[i64], options: &Requeue) -> Vec<Fate> {
    let mut all = Vec::new();
    let requeued = triage::requeue(db, ids, options, &operator(), |fates| all.extend(fates)).await;
    requeued.expect("letters can be requeued");
    all
}

/// Everything that is waiting becomes due now.
pub async fn hurry(owner: &Client) {
    let sql = "UPDATE onceward.deferred SET due_at = clock_timestamp() WHERE due_at IS NOT NULL";
    owner.execute(sql, &[]).await.expect("the owner may");
}

/// Waits until so many messages are put aside in this state.
pub async fn aside_reaches(owner: &Client, state: &str, wanted: i64) {
    let sql = format!("SELECT count(*) FROM onceward.deferred WHERE state = '{state}'");
    eventually(&format!("{wanted} messages are {state}"), || async {
        (count(owner, &sql).await >= wanted).then_some(())
    })
    .await;
}

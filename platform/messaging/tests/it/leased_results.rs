//! The results of leased calls share commits, and one that cannot be recorded costs the others nothing.

use crate::support::{
    Calls, GENEROUS, HandlerCall, Job, count, dead_letters, drained, effects, effects_reach, one_lane, publish_names,
    quick, running, write_effect,
};
use onceward::{
    Consumer, Failure, LeasedHandler, Received, Tx,
    messaging::{LeasedConsumer, consumer::LeaseContext},
};
use onceward_testkit::TestPlatform;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// More often than any task here must be polled before it waits for the database or for the test.
const POLLS: usize = 1_000;

/// A handler whose result `first` is recorded only when the test allows it.
#[derive(Clone)]
struct RecordGate {
    calls: mpsc::UnboundedSender<HandlerCall>,
    started: Arc<Semaphore>,
    allowed: Arc<Semaphore>,
    recorded: Arc<AtomicUsize>,
}

impl RecordGate {
    fn new() -> (Self, Calls) {
        let (calls, received) = Calls::channel();
        let closed = || Arc::new(Semaphore::new(0));
        (Self { calls, started: closed(), allowed: closed(), recorded: Arc::default() }, received)
    }
}

impl LeasedHandler for RecordGate {
    type Event = Job;
    type Work = String;

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<String, Failure> {
        let _ = self.calls.send(HandlerCall::of(received, &received.event));
        Ok(received.event.name.clone())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, work: &String) -> Result<(), Failure> {
        self.recorded.fetch_add(1, Ordering::SeqCst);
        write_effect(tx, &HandlerCall::of(received, &received.event)).await?;
        match work.as_str() {
            "first" => {
                self.started.add_permits(1);
                self.allowed.acquire().await.expect("never closed").forget();
                Ok(())
            }
            "rejected" => Err(Failure::transient("it cannot be recorded")),
            "broken" => {
                let _ = tx.execute("SELECT 1 / 0", &[]).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn consumer(gate: RecordGate) -> LeasedConsumer {
    let consumer = Consumer::leased("probe", crate::support::QUEUE).on(gate).concurrency(32).prefetch(32);
    consumer.retry(quick(2)).budget(GENEROUS).lease(Duration::from_secs(3600))
}

/// Publishes `first` and, while its result is being recorded, the others for each of `tenants`, whose results then wait.
async fn with_waiting_results(tenants: &[&str], names: &[&str]) -> (TestPlatform, RecordGate, Calls) {
    let (gate, mut calls) = RecordGate::new();
    let platform = running(one_lane(), consumer(gate.clone())).await;
    publish_names(platform.db(), "acme", &["first"]).await;
    calls.next().await;
    gate.started.acquire().await.expect("never closed").forget();
    for tenant in tenants {
        publish_names(platform.db(), tenant, names).await;
    }
    calls.names(tenants.len() * names.len()).await;
    for _ in 0..POLLS {
        tokio::task::yield_now().await;
    }
    (platform, gate, calls)
}

#[tokio::test]
async fn results_that_wait_at_the_same_time_share_a_commit_even_of_two_tenants() {
    let names = ["a", "b", "c", "d", "e"];
    let (platform, gate, _calls) = with_waiting_results(&["acme", "globex"], &names).await;
    let owner = platform.database().owner().await;
    assert_eq!(effects(&owner).await.len(), 0, "the first result is not committed yet");
    gate.allowed.add_permits(1);
    effects_reach(&owner, 11).await;
    drained(&owner).await;
    let commits = "SELECT count(DISTINCT xmin::text) FROM probe.effect";
    assert_eq!(count(&owner, commits).await, 2, "the first one, and all that waited for it");
    let of_globex = "SELECT count(*) FROM probe.effect WHERE tenant_id = 'globex'";
    assert_eq!(count(&owner, of_globex).await, 5);
    assert_eq!(gate.recorded.load(Ordering::SeqCst), 11);
}

#[tokio::test]
async fn a_result_that_cannot_be_recorded_costs_the_others_nothing() {
    for bad in ["rejected", "broken"] {
        let (platform, gate, mut calls) = with_waiting_results(&["acme"], &["a", bad, "c"]).await;
        let owner = platform.database().owner().await;
        gate.allowed.add_permits(1);
        let dead = dead_letters(&owner, 1).await;
        assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("attempts_exhausted", 2), "{bad}");
        drained(&owner).await;
        let mut recorded = effects(&owner).await;
        recorded.sort();
        assert_eq!(recorded, ["a", "c", "first"], "{bad}");
        assert_eq!(calls.drain(), 1, "only the call of {bad} was repeated");
    }
}

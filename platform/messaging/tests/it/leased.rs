//! Leased handling: first the external call, then its record, exactly once, whichever worker crashes meanwhile.

use crate::support::{
    Calls, GENEROUS, HandlerCall, Job, count, dead_letters, drained, effects, effects_reach, job, one_lane, platform,
    publish, publish_names, quick, running, service, write_effect,
};
use onceward::{
    Consumer, Failure, LeasedHandler, Platform, Received, Tx,
    messaging::{LeasedConsumer, consumer::LeaseContext},
};
use onceward_testkit::{TestDb, TestPlatform, eventually};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// A call to the outside world that blocks until the test releases it.
#[derive(Clone)]
struct ExternalCall {
    calls: mpsc::UnboundedSender<HandlerCall>,
    released: Arc<Semaphore>,
    recorded: Arc<AtomicUsize>,
}

impl ExternalCall {
    fn new() -> (Self, Calls, Arc<Semaphore>) {
        let (sender, calls) = Calls::channel();
        let released = Arc::new(Semaphore::new(0));
        let outside = Self { calls: sender, released: released.clone(), recorded: Arc::default() };
        (outside, calls, released)
    }
}

impl LeasedHandler for ExternalCall {
    type Event = Job;
    type Work = String;

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<String, Failure> {
        let _ = self.calls.send(HandlerCall::of(received, &received.event));
        self.released.acquire().await.expect("never closed").forget();
        match received.event.name.as_str() {
            "bad" => Err(Failure::transient("the provider says no")),
            name => Ok(format!("{name} done")),
        }
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, work: &String) -> Result<(), Failure> {
        self.recorded.fetch_add(1, Ordering::SeqCst);
        let seen = HandlerCall { name: work.clone(), ..HandlerCall::of(received, &received.event) };
        write_effect(tx, &seen).await
    }
}

fn consumer(outside: ExternalCall) -> LeasedConsumer {
    Consumer::leased("probe", crate::support::QUEUE)
        .on(outside)
        .retry(quick(3))
        .budget(GENEROUS)
        .lease(Duration::from_millis(600))
}

#[tokio::test]
async fn the_external_call_runs_outside_any_transaction_and_is_then_recorded() {
    let (outside, mut calls, released) = ExternalCall::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    calls.next().await;
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    // The worker polls for more meanwhile, which takes moments; a transaction around the call would stay open.
    eventually("no transaction is open during the call", || async { (count(&owner, open).await == 0).then_some(()) })
        .await;
    released.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    drained(&owner).await;
    assert_eq!(calls.drain(), 0);
}

#[tokio::test]
async fn a_failed_call_is_retried_by_the_policy_and_then_dead_lettered() {
    let (outside, _calls, released) = ExternalCall::new();
    released.add_permits(10);
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["bad", "good"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("attempts_exhausted", 3));
    assert_eq!(dead[0].first_error.as_deref(), Some("the provider says no"));
    assert_eq!(effects(&owner).await, ["good done"]);
}

#[tokio::test]
async fn messages_of_a_crashed_worker_are_leased_again_when_their_leases_expire() {
    let (outside, mut calls, released) = ExternalCall::new();
    let platform = platform(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let (mut crashing, _stop) = platform.another_instance();
    crashing.run_consumers();
    publish_names(platform.db(), "acme", &["a"]).await;
    assert_eq!(calls.next().await.attempt, 1);
    // Its tasks are aborted: nothing is returned.
    drop(crashing);
    let (mut successor, stop) = platform.another_instance();
    successor.run_consumers();
    let call = calls.next().await;
    assert_eq!((call.name.as_str(), call.attempt), ("a", 1), "a lost lease does not count as an attempt");
    assert_eq!(count(&owner, "SELECT lease FROM onceward.deferred").await, 2);
    released.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    stop.cancel();
    assert!(successor.finished().await);
}

#[tokio::test]
async fn the_result_of_a_worker_that_lost_its_lease_is_discarded() {
    let (outside, mut calls, released) = ExternalCall::new();
    let recorded = outside.recorded.clone();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    calls.next().await;
    // The lease gets another number, as if another worker had taken it over.
    let taken = "UPDATE onceward.deferred SET lease = lease + 1, due_at = now() + interval '1 hour'";
    assert_eq!(owner.execute(taken, &[]).await.expect("the owner may"), 1);
    released.add_permits(1);
    eventually("the late finisher has finished", || async {
        (released.available_permits() == 0 || recorded.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    // The next holder of the lease finishes the message.
    owner.batch_execute("UPDATE onceward.deferred SET due_at = now()").await.expect("the owner may");
    calls.next().await;
    released.add_permits(2);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a done"]);
    assert_eq!(recorded.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn heartbeats_extend_the_lease_of_a_long_call() {
    let (outside, mut calls, released) = ExternalCall::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let (mut other, stop) = platform.another_instance();
    other.run_consumers();
    publish_names(platform.db(), "acme", &["long"]).await;
    calls.next().await;
    let start: f64 = due_at(&owner).await;
    eventually("the lease was extended several times", || async { (due_at(&owner).await > start + 2.0).then_some(()) })
        .await;
    assert_eq!(calls.drain(), 0, "another worker received the message");
    released.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["long done"]);
    let row = owner.query_one("SELECT attempt FROM probe.effect", &[]).await.expect("one effect");
    assert_eq!(row.get::<_, i32>(0), 1);
    stop.cancel();
    assert!(other.finished().await);
}

async fn due_at(owner: &tokio_postgres::Client) -> f64 {
    let sql = "SELECT extract(epoch FROM due_at)::double precision FROM onceward.deferred";
    owner.query_one(sql, &[]).await.expect("a lease").get(0)
}

#[tokio::test]
async fn leased_messages_of_one_key_are_handled_one_after_the_other() {
    let (outside, mut calls, released) = ExternalCall::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let names = ["k1", "k2", "k3"];
    publish(platform.db(), "acme", names.map(|name| job("acme", name).ordered_by("k"))).await;
    publish(platform.db(), "acme", [job("acme", "other").ordered_by("o")]).await;
    let mut first = calls.names(2).await;
    first.sort_unstable();
    assert_eq!(first, ["k1", "other"]);
    let parked = "SELECT count(*) FROM onceward.deferred WHERE state = 'parked'";
    eventually("the followers are parked", || async { (count(&owner, parked).await == 2).then_some(()) }).await;
    released.add_permits(2);
    assert_eq!(calls.next().await.name, "k2");
    released.add_permits(1);
    assert_eq!(calls.next().await.name, "k3");
    released.add_permits(1);
    drained(&owner).await;
    let done: Vec<String> = effects(&owner).await.into_iter().filter(|name| name.starts_with('k')).collect();
    assert_eq!(done, ["k1 done", "k2 done", "k3 done"]);
}

#[tokio::test]
async fn a_stopping_worker_finishes_its_calls_and_records_them() {
    let (outside, mut calls, released) = ExternalCall::new();
    let recorded = outside.recorded.clone();
    let platform = platform(one_lane(), consumer(outside).concurrency(10).lease(Duration::from_secs(3600))).await;
    let owner = platform.database().owner().await;
    let (mut stopping, stop) = platform.another_instance();
    stopping.run_consumers();
    let names: Vec<String> = (0..10).map(|n| format!("call {n}")).collect();
    publish_names(platform.db(), "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    calls.names(10).await;
    stop.cancel();
    // A message that arrives after the stop is left for another worker.
    publish_names(platform.db(), "acme", &["late"]).await;
    let stopped = tokio::spawn(stopping.finished());
    released.add_permits(10);
    assert!(stopped.await.expect("it does not panic"), "it did not stop in time");
    assert_eq!((recorded.load(Ordering::SeqCst), effects(&owner).await.len()), (10, 10));
    assert_eq!(calls.drain(), 0, "a call was repeated, or a new one was started while stopping");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.deferred").await, 0);
}

#[tokio::test]
async fn calls_that_exceed_the_grace_period_are_returned_without_counting_an_attempt() {
    let (outside, mut calls, released) = ExternalCall::new();
    let services = vec![service(one_lane(), consumer(outside).concurrency(10).lease(Duration::from_secs(3600)))];
    let assembled = Platform::assemble(services).expect("the services are assembled");
    let database = TestDb::for_platform(&assembled).await;
    let platform = TestPlatform::with_config(database, assembled, |config| config.shutdown.grace_ms = 4_000);
    let owner = platform.database().owner().await;
    let (mut stopping, stop) = platform.another_instance();
    stopping.run_consumers();
    let names: Vec<String> = (0..10).map(|n| format!("call {n}")).collect();
    publish_names(platform.db(), "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    calls.names(10).await;
    stop.cancel();
    assert!(stopping.finished().await, "it did not return its leases in time");
    let returned = "SELECT count(*) FROM onceward.deferred WHERE state = 'waiting' AND attempts = 0";
    assert_eq!(count(&owner, returned).await, 10);
    let (mut next, stop) = platform.another_instance();
    next.run_consumers();
    for _ in 0..10 {
        assert_eq!(calls.next().await.attempt, 1);
    }
    released.add_permits(10);
    assert_eq!(effects_reach(&owner, 10).await.len(), 10);
    stop.cancel();
    assert!(next.finished().await);
}

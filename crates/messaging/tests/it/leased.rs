//! Leased handling: the outside call first, its record once, whoever crashes meanwhile.

use crate::support::{
    Calls, GENEROUS, Job, Seen, count, dead_letters, drained, effects, effects_reach, job, one_lane, platform, publish,
    publish_names, quick, running, write_effect,
};
use onceward::{Consumer, Failure, LeasedHandler, Received, Tx, messaging::consumer::LeaseContext};
use onceward_testkit::eventually;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// A call to the outside world that takes until the test lets it go.
#[derive(Clone)]
struct Outside {
    calls: mpsc::UnboundedSender<Seen>,
    let_go: Arc<Semaphore>,
    recorded: Arc<AtomicUsize>,
}

impl Outside {
    fn new() -> (Self, Calls, Arc<Semaphore>) {
        let (sender, calls) = Calls::channel();
        let let_go = Arc::new(Semaphore::new(0));
        let outside = Self { calls: sender, let_go: let_go.clone(), recorded: Arc::default() };
        (outside, calls, let_go)
    }
}

impl LeasedHandler for Outside {
    type Event = Job;
    type Work = String;

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<String, Failure> {
        let _ = self.calls.send(Seen::of(received, &received.event));
        self.let_go.acquire().await.expect("never closed").forget();
        match received.event.name.as_str() {
            "bad" => Err(Failure::transient("the provider says no")),
            name => Ok(format!("{name} done")),
        }
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, work: String) -> Result<(), Failure> {
        self.recorded.fetch_add(1, Ordering::SeqCst);
        let seen = Seen { name: work, ..Seen::of(received, &received.event) };
        write_effect(tx, &seen).await
    }
}

fn consumer(outside: Outside) -> Consumer {
    Consumer::leased("probe", crate::support::QUEUE)
        .on_leased(outside)
        .retry(quick(3))
        .budget(GENEROUS)
        .lease(Duration::from_millis(600))
}

#[tokio::test]
async fn the_outside_call_is_made_without_a_transaction_and_then_recorded() {
    let (outside, mut calls, let_go) = Outside::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    calls.next().await;
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    // The worker looks for more meanwhile, which takes moments; a transaction of the call would stay.
    eventually("no transaction is open during the call", || async { (count(&owner, open).await == 0).then_some(()) })
        .await;
    let_go.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    drained(&owner).await;
    assert_eq!(calls.drain(), 0);
}

#[tokio::test]
async fn a_failed_call_is_retried_by_the_policy_and_then_a_dead_letter() {
    let (outside, _calls, let_go) = Outside::new();
    let_go.add_permits(10);
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["bad", "good"]).await;
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("attempts_exhausted", 3));
    assert_eq!(dead[0].first_error.as_deref(), Some("the provider says no"));
    assert_eq!(effects(&owner).await, ["good done"]);
}

#[tokio::test]
async fn what_a_crashed_worker_held_is_rescued_under_a_higher_lease_when_its_time_is_over() {
    let (outside, mut calls, let_go) = Outside::new();
    let platform = platform(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let (mut crashing, _stop) = platform.another_instance();
    crashing.run_consumers();
    publish_names(platform.db(), "acme", &["a"]).await;
    assert_eq!(calls.next().await.attempt, 1);
    // Its tasks end where they stand: nothing is handed back.
    drop(crashing);
    let (mut rescuer, stop) = platform.another_instance();
    rescuer.run_consumers();
    let rescued = calls.next().await;
    assert_eq!((rescued.name.as_str(), rescued.attempt), ("a", 2));
    assert_eq!(count(&owner, "SELECT lease FROM onceward.deferred").await, 2);
    let_go.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    stop.cancel();
    assert!(rescuer.finished().await);
}

#[tokio::test]
async fn a_late_finisher_whose_message_was_rescued_is_discarded() {
    let (outside, mut calls, let_go) = Outside::new();
    let recorded = outside.recorded.clone();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    calls.next().await;
    // The lease moves on under another number, as if somebody else had rescued it.
    let taken = "UPDATE onceward.deferred SET lease = lease + 1, due_at = now() + interval '1 hour'";
    assert_eq!(owner.execute(taken, &[]).await.expect("the owner may"), 1);
    let_go.add_permits(1);
    eventually("the late finisher is through", || async {
        (let_go.available_permits() == 0 || recorded.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    // The next holder finishes.
    owner.batch_execute("UPDATE onceward.deferred SET due_at = now()").await.expect("the owner may");
    calls.next().await;
    let_go.add_permits(2);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["a done"]);
    assert_eq!(recorded.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_heartbeat_keeps_a_long_job_for_as_long_as_it_takes() {
    let (outside, mut calls, let_go) = Outside::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let (mut other, stop) = platform.another_instance();
    other.run_consumers();
    publish_names(platform.db(), "acme", &["long"]).await;
    calls.next().await;
    let start: f64 = due_at(&owner).await;
    eventually("the lease was extended over several of its length", || async {
        (due_at(&owner).await > start + 2.0).then_some(())
    })
    .await;
    assert_eq!(calls.drain(), 0, "somebody else was given the message");
    let_go.add_permits(1);
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
    let (outside, mut calls, let_go) = Outside::new();
    let platform = running(one_lane(), consumer(outside)).await;
    let owner = platform.database().owner().await;
    let names = ["k1", "k2", "k3"];
    publish(platform.db(), "acme", names.map(|name| job("acme", name).ordered_by("k"))).await;
    publish(platform.db(), "acme", [job("acme", "other").ordered_by("o")]).await;
    let mut first = calls.names(2).await;
    first.sort_unstable();
    assert_eq!(first, ["k1", "other"]);
    let parked = "SELECT count(*) FROM onceward.deferred WHERE state = 'parked'";
    eventually("the followers stand aside", || async { (count(&owner, parked).await == 2).then_some(()) }).await;
    let_go.add_permits(2);
    assert_eq!(calls.next().await.name, "k2");
    let_go.add_permits(1);
    assert_eq!(calls.next().await.name, "k3");
    let_go.add_permits(1);
    drained(&owner).await;
    let done: Vec<String> = effects(&owner).await.into_iter().filter(|name| name.starts_with('k')).collect();
    assert_eq!(done, ["k1 done", "k2 done", "k3 done"]);
}

#[tokio::test]
async fn a_worker_that_stops_hands_back_what_it_holds_without_counting_an_attempt() {
    let (outside, mut calls, let_go) = Outside::new();
    let mut consumer = consumer(outside);
    consumer = consumer.lease(Duration::from_secs(3600));
    let platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    let (mut stopping, stop) = platform.another_instance();
    stopping.run_consumers();
    publish_names(platform.db(), "acme", &["a"]).await;
    calls.next().await;
    stop.cancel();
    assert!(stopping.finished().await, "it did not stop in time");
    let (mut next, stop) = platform.another_instance();
    next.run_consumers();
    assert_eq!(calls.next().await.attempt, 1);
    let_go.add_permits(1);
    assert_eq!(effects_reach(&owner, 1).await, ["a done"]);
    stop.cancel();
    assert!(next.finished().await);
}

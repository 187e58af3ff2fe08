//! Worker pools: their size follows the work within its bounds, over all processes, and nothing is lost on the way down.

use crate::support::{
    Calls, GENEROUS, HandlerCall, Job, QUEUE, count, drained, effects_reach, one_lane, publish_names, quick, service,
    write_effect,
};
use onceward::{
    Consumer, Failure, Handler, LeasedHandler, PoolSettings, Queue, Received, Service, Tx,
    message_log::{pools, triage::Operator},
    messaging::consumer::LeaseContext,
};
use onceward_testkit::{TestPlatform, eventually};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_postgres::Client;

const MESSAGES: usize = 100;

/// A call that blocks until the test releases it.
#[derive(Clone)]
struct Blocking {
    calls: mpsc::UnboundedSender<HandlerCall>,
    released: Arc<Semaphore>,
}

impl LeasedHandler for Blocking {
    type Event = Job;
    type Work = ();

    async fn perform(&self, _lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let _ = self.calls.send(HandlerCall::of(received, &received.event));
        self.released.acquire().await.expect("never closed").forget();
        Ok(())
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

/// A turn that blocks until the test releases it.
#[derive(Clone)]
struct BlockingTurn {
    calls: mpsc::UnboundedSender<HandlerCall>,
    released: Arc<Semaphore>,
}

impl Handler for BlockingTurn {
    type Event = Job;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Job>) -> Result<(), Failure> {
        let call = HandlerCall::of(received, &received.event);
        let _ = self.calls.send(call.clone());
        self.released.acquire().await.expect("never closed").forget();
        write_effect(tx, &call).await
    }
}

fn pool() -> PoolSettings {
    PoolSettings {
        min: 1,
        max: 4,
        scale_up_at: 20,
        scale_down_at: 2,
        check_every_ms: 500,
        cooldown_ms: 500,
        stabilize_ms: 500,
        ..PoolSettings::new("calls", [QUEUE])
    }
}

fn pooled_service() -> (Service, Calls, Arc<Semaphore>) {
    let (calls, seen) = Calls::channel();
    let released = Arc::new(Semaphore::new(0));
    let handler = Blocking { calls, released: released.clone() };
    let consumer = Consumer::leased("probe", QUEUE).on(handler).retry(quick(3)).budget(GENEROUS);
    (service(one_lane(), consumer).pool(pool()), seen, released)
}

async fn publish_all(platform: &TestPlatform) {
    let names: Vec<String> = (0..MESSAGES).map(|n| format!("call {n}")).collect();
    publish_names(platform.db(), "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

async fn size_reaches(owner: &Client, size: i64) {
    eventually(&format!("the pool has {size} workers"), || async {
        let sizes = "SELECT coalesce(max(size), 0)::bigint FROM onceward.pool";
        (count(owner, sizes).await == size).then_some(())
    })
    .await;
}

async fn active_reaches(owner: &Client, active: i64) {
    eventually(&format!("{active} workers are active"), || async {
        let sum = "SELECT coalesce(sum(active), 0)::bigint FROM onceward.pool_member";
        (count(owner, sum).await == active).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pool_grows_with_its_backlog_and_shrinks_without_losing_work() {
    let (service, mut calls, released) = pooled_service();
    let mut platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    size_reaches(&owner, 1).await;
    publish_all(&platform).await;
    size_reaches(&owner, 4).await;
    active_reaches(&owner, 4).await;
    assert_eq!(calls.drain(), 4, "the maximum is 4, and no call is finished yet");
    let wanted = "SELECT onceward.desired_workers('probe.work')::bigint";
    assert_eq!(count(&owner, wanted).await, 4);
    released.add_permits(MESSAGES);
    effects_reach(&owner, MESSAGES).await;
    size_reaches(&owner, 1).await;
    drained(&owner).await;

    let decisions = pools::decisions(platform.db(), "calls", 200).await.expect("the pool exists");
    let sizes: Vec<(i32, i32)> = decisions.iter().rev().map(|one| (one.from, one.to)).collect();
    assert_eq!(sizes, [(1, 2), (2, 3), (3, 4), (4, 3), (3, 2), (2, 1)], "one change of direction");
    assert!(
        decisions[5].reason.starts_with("1 → 2: ") && decisions[5].reason.ends_with(" waiting ≥ 20"),
        "{decisions:?}"
    );
    eventually("the counts are reported", || async {
        let status = pools::list(platform.db()).await.expect("the pool exists").remove(0);
        (status.completed == MESSAGES as i64 && status.failed == 0 && status.last_completed_at.is_some()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn processes_share_the_size_of_a_pool() {
    let (service, mut calls, released) = pooled_service();
    let platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    let (mut first, stop_first) = platform.another_instance();
    let (mut second, stop_second) = platform.another_instance();
    first.run_consumers();
    second.run_consumers();
    eventually("both processes are in the pool", || async {
        (count(&owner, "SELECT count(*) FROM onceward.pool_member").await == 2).then_some(())
    })
    .await;
    publish_all(&platform).await;
    size_reaches(&owner, 4).await;
    active_reaches(&owner, 4).await;
    let largest = "SELECT max(active)::bigint FROM onceward.pool_member";
    assert_eq!(count(&owner, largest).await, 2, "two workers in each process");
    // Each process ran its minimum before it knew of the other, so one call more may have been started.
    assert!((4..=5).contains(&calls.drain()));
    // A process that stops leaves its share to the other.
    released.add_permits(2);
    stop_first.cancel();
    released.add_permits(2);
    assert!(first.finished().await);
    active_reaches(&owner, 4).await;
    released.add_permits(MESSAGES);
    effects_reach(&owner, MESSAGES).await;
    stop_second.cancel();
    assert!(second.finished().await);
}

#[tokio::test]
async fn an_operator_changes_the_bounds_of_a_pool_and_returns_to_those_of_the_code() {
    let (service, _calls, _released) = pooled_service();
    let mut platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    size_reaches(&owner, 1).await;
    let operator = Operator { name: "ada".to_owned(), why: "a campaign starts".to_owned() };
    let larger = PoolSettings { min: 3, ..pool() };
    assert!(pools::set(platform.db(), "calls", Some(&larger), &operator).await.expect("the database is there"));
    size_reaches(&owner, 3).await;
    assert!(pools::set(platform.db(), "calls", None, &operator).await.expect("the database is there"));
    size_reaches(&owner, 1).await;
    assert!(!pools::set(platform.db(), "no such pool", None, &operator).await.expect("the database is there"));
    let acts = "SELECT count(*) FROM audit.entry WHERE tenant_id = 'platform' AND event_type IN ('pool_changed', 'pool_reset')";
    assert_eq!(count(&owner, acts).await, 2);
}

#[tokio::test]
async fn a_maximum_above_the_declared_one_is_honoured_by_running_processes() {
    let (service, mut calls, released) = pooled_service();
    let mut platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    publish_all(&platform).await;
    active_reaches(&owner, 4).await;
    let operator = Operator { name: "ada".to_owned(), why: "a campaign starts".to_owned() };
    let larger = PoolSettings { min: 9, max: 12, ..pool() };
    assert!(pools::set(platform.db(), "calls", Some(&larger), &operator).await.expect("the database is there"));
    active_reaches(&owner, 12).await;
    assert_eq!(calls.names(12).await.len(), 12, "twelve calls are in flight at the same time");
    released.add_permits(MESSAGES);
    effects_reach(&owner, MESSAGES).await;
}

#[tokio::test]
async fn transactional_workers_grow_beyond_the_declared_maximum_too() {
    let (calls, mut seen) = Calls::channel();
    let released = Arc::new(Semaphore::new(0));
    let handler = BlockingTurn { calls, released: released.clone() };
    let consumer = Consumer::transactional("probe", QUEUE).prefetch(1).on(handler);
    let mut platform =
        TestPlatform::new(vec![service(Queue::work(QUEUE).dead_letter("probe.dlq"), consumer).pool(pool())]).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    let operator = Operator { name: "ada".to_owned(), why: "a campaign starts".to_owned() };
    eventually("the pool is declared", || async {
        (count(&owner, "SELECT count(*) FROM onceward.pool").await == 1).then_some(())
    })
    .await;
    let larger = PoolSettings { min: 6, max: 6, ..pool() };
    assert!(pools::set(platform.db(), "calls", Some(&larger), &operator).await.expect("the database is there"));
    for tenant in ["a", "b", "c", "d", "e", "f"] {
        publish_names(platform.db(), tenant, &["job"]).await;
    }
    for _ in 0..6 {
        seen.next().await;
    }
    released.add_permits(6);
    effects_reach(&owner, 6).await;
}

//! A running platform: wakes at once, polls as a fallback, is quiet when idle, stops cleanly.

use crate::support::{
    Probe, consumer, count, drained, effects, effects_reach, one_lane, platform, publish_names, running,
};
use onceward::runtime::ProcessRuntime;
use onceward_testkit::{TestPlatform, eventually};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Starts an instance that polls so rarely that no poll happens during a test.
fn rarely_polling(platform: &TestPlatform) -> (ProcessRuntime, CancellationToken) {
    let mut config = platform.config().clone();
    config.bus.poll_ms = 600_000;
    let stop = CancellationToken::new();
    let running = ProcessRuntime::new(platform.platform().clone(), config, stop.clone()).expect("the instance starts");
    (running, stop)
}

/// Waits until the workers have polled for the last time and only a notification can wake them.
async fn wait_until_idle(owner: &tokio_postgres::Client) {
    let awake = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                 AND query NOT LIKE 'LISTEN%' AND (state <> 'idle' OR state_change > now() - interval '400 ms')";
    let listening = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    eventually("the workers sleep", || async {
        (count(owner, listening).await == 1 && count(owner, awake).await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_commit_in_another_process_wakes_a_worker_immediately() {
    let (probe, mut calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let (mut worker, stop) = rarely_polling(&platform);
    worker.run_consumers();
    wait_until_idle(&owner).await;
    for name in ["in a new lane", "in a known lane"] {
        publish_names(platform.db(), "acme", &[name]).await;
        assert_eq!(calls.next().await.name, name);
        wait_until_idle(&owner).await;
    }
    crate::support::enqueue(&owner, "acme", "probe.job.v1", &serde_json::json!({"name": "from SQL"})).await;
    assert_eq!(calls.next().await.name, "from SQL");
    stop.cancel();
    assert!(worker.finished().await);
}

#[tokio::test]
async fn a_commit_in_the_same_process_wakes_its_worker_without_a_notification() {
    let (probe, mut calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let (mut worker, stop) = rarely_polling(&platform);
    worker.run_consumers();
    owner.batch_execute("REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC").await.expect("the owner may");
    wait_until_idle(&owner).await;
    publish_names(worker.db(), "acme", &["a"]).await;
    assert_eq!(calls.next().await.name, "a");
    stop.cancel();
    assert!(worker.finished().await);
}

#[tokio::test]
async fn without_notifications_polling_finds_the_messages() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    owner.batch_execute("REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC").await.expect("the owner may");
    let (publisher, _stop) = platform.another_instance();
    for name in ["a", "b"] {
        publish_names(publisher.db(), "acme", &[name]).await;
        assert_eq!(calls.next().await.name, name);
    }
}

#[tokio::test]
async fn a_worker_polls_after_its_listener_lost_the_connection() {
    let (probe, mut calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let (mut worker, stop) = rarely_polling(&platform);
    worker.run_consumers();
    wait_until_idle(&owner).await;
    owner
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        )
        .await
        .expect("the owner may");
    publish_names(platform.db(), "acme", &["a"]).await;
    assert_eq!(calls.next().await.name, "a");
    stop.cancel();
    assert!(worker.finished().await);
}

#[tokio::test]
async fn stopping_finishes_the_current_turn_and_takes_no_other() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let (probe, mut calls) = Probe::new(move |_, _| {
        let held = held.clone();
        Box::pin(async move {
            held.acquire().await.expect("never closed").forget();
            Ok(())
        })
    });
    let mut platform = platform(one_lane(), consumer(probe).concurrency(1).prefetch(2)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a", "b", "c", "d"]).await;
    platform.run_consumers();
    calls.next().await;
    let stopping = tokio::spawn(platform.stop());
    gate.add_permits(10);
    let (clean, _database) = stopping.await.expect("it stops");
    assert!(clean);
    assert_eq!(effects(&owner).await, ["a", "b"]);
}

#[tokio::test]
async fn work_that_does_not_finish_in_time_is_returned_and_reported() {
    let (probe, mut calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            if seen.name == "stuck" {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    });
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let mut config = platform.config().clone();
    config.shutdown.grace_ms = 100;
    let stop = CancellationToken::new();
    let mut stuck =
        ProcessRuntime::new(platform.platform().clone(), config, stop.clone()).expect("the instance starts");
    stuck.run_consumers();
    publish_names(platform.db(), "acme", &["stuck"]).await;
    calls.next().await;
    stop.cancel();
    assert!(!stuck.finished().await, "it said that all was finished");
    assert_eq!(effects(&owner).await, [""; 0]);
    let stats = "SELECT sum(depth)::bigint FROM onceward.queue_stats(10)";
    assert_eq!(count(&owner, stats).await, 1, "the message was lost");
}

#[tokio::test]
async fn an_idle_platform_sends_few_statements() {
    let (probe, _calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    effects_reach(&owner, 1).await;
    drained(&owner).await;
    let name: String = owner.query_one("SELECT current_database()::text", &[]).await.expect("a name").get(0);
    drop(owner);
    // Queried from another database, so that the query itself does not count.
    let mut elsewhere = platform.database().config();
    elsewhere.url = elsewhere.url.replace(&name, "postgres");
    let watcher = onceward::db::migrate::owner(&elsewhere).await.expect("the server can be reached");
    // Each poll shows as a connection whose last statement started at another time.
    let seen: Mutex<HashSet<(i32, String)>> = Mutex::default();
    let looks = || async {
        let sql = "SELECT pid, query_start::text FROM pg_stat_activity WHERE datname = $1 AND query_start IS NOT NULL";
        let rows = watcher.query(sql, &[&name]).await.expect("the activity");
        let mut seen = seen.lock();
        seen.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
        seen.len()
    };
    let (start, began) = (looks().await, Instant::now());
    // One queue, polled five times per second: twenty polls take four seconds. A busy loop takes no time.
    eventually("some polls", || async { (looks().await >= start + 20).then_some(()) }).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(2), "20 looks within {took:?}");
}

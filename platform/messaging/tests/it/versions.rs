//! Versions: newer ones wait for a worker that knows them, older ones do not wait.

use crate::support::{
    Probe, ProbeV2, QUEUE, consumer, count, dead_letters, drained, effects, enqueue, instance_with, one_lane, platform,
    publish_names, quick, service,
};
use onceward::{Consumer, Failure, Platform, message_log::stats};
use onceward_testkit::{TestDb, TestPlatform, eventually};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_newer_version_waits_without_attempts_until_a_worker_that_knows_it_starts() {
    let (old, mut old_calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(old)).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    enqueue(&owner, "acme", "probe.job.v2", &json!({"name": "newer"})).await;
    let waits = "SELECT attempts FROM onceward.deferred WHERE state = 'unknown'";
    let attempts: i32 =
        eventually("it waits", || async { Some(owner.query_opt(waits, &[]).await.ok()??.get(0)) }).await;
    assert_eq!(attempts, 0);
    // The old worker continues to handle what it knows.
    publish_names(platform.db(), "acme", &["older"]).await;
    assert_eq!(old_calls.next().await.name, "older");

    let (new, mut new_calls) = Probe::good();
    let both = consumer(new.clone()).on(ProbeV2(new));
    let services = vec![service(one_lane(), both)];
    let (mut newer, stop) = instance_with(&platform, services);
    let (clean, _database) = platform.stop().await;
    assert!(clean);
    newer.run_consumers();
    let seen = new_calls.next().await;
    assert_eq!((seen.name.as_str(), seen.attempt), ("newer", 1));
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["older", "newer"]);
    stop.cancel();
    assert!(newer.finished().await);
}

#[tokio::test]
async fn a_message_of_an_unknown_type_is_counted_and_becomes_a_dead_letter_after_its_time() {
    let (probe, mut calls) = Probe::good();
    let limited = consumer(probe).unknown_for(Duration::from_secs(3600));
    let mut platform = platform(one_lane(), limited).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    let topic = "probe.events:tenant.acme.job";
    let follower = json!({"name": "follower"});
    for (event_type, payload) in [("probe.jbo.v1", &json!({"name": "misspelt"})), ("probe.job.v1", &follower)] {
        let enqueue = "SELECT onceward.enqueue('acme', $1, $2, $3, NULL, 'key')";
        owner.execute(enqueue, &[&topic, &event_type, payload]).await.expect("it is accepted");
    }
    let unknown = eventually("it is counted", || async {
        let queues = stats::unknown_messages(platform.db()).await.expect("figures");
        queues.into_iter().find(|queue| queue.messages > 0)
    })
    .await;
    assert_eq!((unknown.queue.as_str(), unknown.messages), (QUEUE, 1));
    assert_eq!(unknown.event_types, ["probe.jbo.v1"]);
    // Two hours later.
    owner
        .batch_execute(
            "UPDATE onceward.deferred SET unknown_since = unknown_since - interval '2 hours', due_at = clock_timestamp()
             WHERE state = 'unknown'",
        )
        .await
        .expect("the owner may turn time back");
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].name.as_deref(), dead[0].reason.as_str()), (Some("misspelt"), "unknown_type"));
    assert_eq!(calls.next().await.name, "follower", "its key goes on");
    drained(&owner).await;
}

#[tokio::test]
async fn unknown_time_is_counted_from_when_the_type_was_first_unknown() {
    let (snoozing, mut calls) =
        Probe::new(|_, _| Box::pin(async { Err(Failure::snooze(Duration::from_secs(3600), "too early")) }));
    let mut newer = platform(one_lane(), consumer(snoozing.clone()).on(ProbeV2(snoozing))).await;
    let owner = newer.database().owner().await;
    enqueue(&owner, "acme", "probe.job.v2", &json!({"name": "early"})).await;
    newer.run_consumers();
    calls.next().await;
    let snoozed = "SELECT FROM onceward.deferred WHERE state = 'waiting'";
    eventually("it is snoozed", || async { owner.query_opt(snoozed, &[]).await.ok()? }).await;
    let (old, _calls) = Probe::good();
    let (mut older, stop) = instance_with(&newer, vec![service(one_lane(), consumer(old))]);
    let (clean, _database) = newer.stop().await;
    assert!(clean);
    let two_days = "UPDATE onceward.deferred SET first_failed_at = first_failed_at - interval '2 days', due_at = clock_timestamp()";
    owner.batch_execute(two_days).await.expect("the owner may turn time back");
    // The release is rolled back.
    older.run_consumers();
    let state = "SELECT state FROM onceward.deferred WHERE state <> 'waiting' UNION ALL SELECT status FROM onceward.dead_letters";
    let state: String =
        eventually("it was received", || async { Some(owner.query_opt(state, &[]).await.ok()??.get(0)) }).await;
    assert_eq!(state, "unknown");
    stop.cancel();
    assert!(older.finished().await);
}

#[tokio::test]
async fn the_setting_limits_how_long_a_type_may_be_unknown() {
    let (probe, _calls) = Probe::good();
    let services = vec![service(one_lane(), consumer(probe))];
    let assembled = Platform::assemble(services).expect("the services are assembled");
    let database = TestDb::for_platform(&assembled).await;
    let mut platform = TestPlatform::with_config(database, assembled, |config| config.workers.unknown_hours = 5);
    let owner = platform.database().owner().await;
    platform.run_consumers();
    enqueue(&owner, "acme", "probe.job.v2", &json!({"name": "newer"})).await;
    for (hours, dead) in [(4, 0), (2, 1)] {
        let waits = "SELECT FROM onceward.deferred WHERE state = 'unknown' AND due_at > clock_timestamp()";
        eventually("it waits", || async { owner.query_opt(waits, &[]).await.ok()? }).await;
        let later = format!(
            "UPDATE onceward.deferred SET unknown_since = unknown_since - interval '{hours} hours', due_at = clock_timestamp()"
        );
        owner.batch_execute(&later).await.expect("the owner may turn time back");
        let looked_at = "SELECT count(*) FROM onceward.deferred WHERE due_at <= clock_timestamp()";
        eventually("it was received", || async { (count(&owner, looked_at).await == 0).then_some(()) }).await;
        assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, dead);
    }
}

#[tokio::test]
async fn a_starting_worker_does_not_wake_a_snoozed_message() {
    let (probe, mut calls) =
        Probe::new(|_, _| Box::pin(async { Err(Failure::snooze(Duration::from_secs(3600), "too early")) }));
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["early"]).await;
    platform.run_consumers();
    calls.next().await;
    let due =
        "SELECT extract(epoch FROM due_at - clock_timestamp())::bigint FROM onceward.deferred WHERE state = 'waiting'";
    eventually("it is snoozed", || async { owner.query_opt(due, &[]).await.ok()? }).await;
    owner.batch_execute("SELECT onceward.recheck_waiting(id) FROM onceward.queue").await.expect("a worker started");
    assert!(count(&owner, due).await > 3000, "it was woken");
}

#[tokio::test]
async fn a_version_that_is_no_longer_handled_makes_a_dead_letter() {
    let (probe, _calls) = Probe::good();
    let only_new = Consumer::transactional("probe", crate::support::QUEUE).on(ProbeV2(probe)).retry(quick(3));
    let mut platform = platform(one_lane(), only_new).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["old"]).await;
    platform.run_consumers();
    let dead = dead_letters(&owner, 1).await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("retired_version", 1));
    assert_eq!(effects(&owner).await, [""; 0]);
}

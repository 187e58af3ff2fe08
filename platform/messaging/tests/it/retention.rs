//! Retention: history is removed by partition, unread messages stay, and hot tables stay small.

use crate::support::{
    Probe, consumer, count, drained, effects_reach, job, numbered, one_lane, platform, publish, publish_names,
};
use onceward::message_log::{
    retention::{Retention, sweep},
    triage,
};
use onceward_testkit::{TestPlatform, eventually};
use std::sync::atomic::{AtomicI64, Ordering};

/// Everything counts as old immediately.
const AT_ONCE: Retention = Retention { epoch_s: 0, keep_s: 0, inbox_s: 0, letters_s: 0 };
const PARTITIONS: &str = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'onceward.message_log'::regclass";

/// Sweeps until the count is at most `most`. A lane that was read while others wrote is finished with a partition only
/// after it has been read again, so one sweep may come too early.
async fn swept_until(platform: &TestPlatform, sql: &str, most: i64, deleted_keys: &AtomicI64) {
    let owner = platform.database().owner().await;
    eventually("old partitions are gone", || async {
        let swept = sweep(platform.db(), AT_ONCE).await.ok()?;
        deleted_keys.fetch_add(swept.keys, Ordering::SeqCst);
        (count(&owner, sql).await <= most).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_old_partition_is_dropped_with_its_keys_once_it_was_read() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").once_per("k"), job("acme", "b")]).await;

    let swept = sweep(platform.db(), AT_ONCE).await.expect("the sweep succeeds");
    assert!(swept.opened);
    assert_eq!((swept.dropped, swept.keys), (0, 0), "unread messages were dropped");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log_1").await, 2);

    platform.run_consumers();
    effects_reach(&owner, 2).await;
    drained(&owner).await;
    let deleted_keys = AtomicI64::new(0);
    swept_until(&platform, "SELECT count(*) FROM onceward.message_log", 0, &deleted_keys).await;
    assert_eq!(deleted_keys.into_inner(), 1, "deleted keys");

    // The key may be used again, and the lane continues from its position.
    publish(platform.db(), "acme", [job("acme", "c").once_per("k")]).await;
    assert_eq!(effects_reach(&owner, 3).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn sweeping_often_keeps_the_number_of_partitions_small() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    for n in 0..6 {
        publish(platform.db(), "acme", [numbered("acme", "a", n)]).await;
        effects_reach(&owner, usize::try_from(n).expect("small") + 1).await;
        drained(&owner).await;
        sweep(platform.db(), AT_ONCE).await.expect("the sweep succeeds");
    }
    swept_until(&platform, PARTITIONS, 2, &AtomicI64::new(0)).await;
}

#[tokio::test]
async fn a_message_that_waits_for_a_retry_outlives_its_partition() {
    let (probe, mut calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.attempt {
                1 => Err(onceward::Failure::retry_after(std::time::Duration::from_millis(700), "later")),
                _ => Ok(()),
            }
        })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish_names(platform.db(), "acme", &["a"]).await;
    platform.run_consumers();
    calls.names(2).await;
    let aside = "SELECT count(*) FROM onceward.deferred";
    eventually("it is deferred", || async { (count(&owner, aside).await == 1).then_some(()) }).await;
    sweep(platform.db(), AT_ONCE).await.expect("the sweep succeeds");
    eventually("its partition is gone", || async {
        let dropped = sweep(platform.db(), AT_ONCE).await.ok()?;
        (count(&owner, "SELECT count(*) FROM onceward.message_log").await == 0).then_some(dropped)
    })
    .await;
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
}

#[tokio::test]
async fn inbox_rows_are_deleted_after_their_retention() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "SELECT onceward.record_inbox('acme', 'old'), onceward.record_inbox('acme', 'new');
             UPDATE onceward.inbox SET received_at = now() - interval '2 hours' WHERE idempotency_key = 'old'",
        )
        .await
        .expect("two rows");
    let keep = Retention { inbox_s: 3_600, ..Retention::default() };
    assert_eq!(sweep(platform.db(), keep).await.expect("the sweep succeeds").keys, 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.inbox").await, 1);
}

#[tokio::test]
async fn dead_letters_are_deleted_only_some_time_after_they_were_requeued() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "INSERT INTO onceward.dead_letters (event_id, tenant_id, queue, consumer, event_type, version, correlation_id, reason,
                 attempts, dead_at, message)
             SELECT gen_random_uuid(), 'acme', 'work', 'worker', 'job.done', 1, 'c', 'malformed', 1, now() - age * interval '1 hour', '{}'
             FROM unnest(ARRAY[6, 5, 4, 3, 0]) AS age;
             SELECT onceward.quarantine(ARRAY[2]::bigint[], 'paper', 'olga', 'torn');
             INSERT INTO onceward.dead_letter_act (dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, at)
             SELECT a.id, 'acme', 'work', 'job.done', 1, 'requeued', 'olga', 'mended', now() - a.hours * interval '1 hour'
             FROM (VALUES (3, 2), (4, 0), (5, 0)) AS a(id, hours);
             UPDATE onceward.dead_letters SET status = 'requeued' WHERE id > 2",
        )
        .await
        .expect("one open letter, one in quarantine, and three that were requeued");
    let keep = Retention { letters_s: 3_600, ..Retention::default() };
    assert_eq!(sweep(platform.db(), keep).await.expect("the sweep succeeds").letters, 1);
    let left = owner.query("SELECT id FROM onceward.dead_letters ORDER BY id", &[]).await.expect("letters");
    let left: Vec<i64> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [1, 2, 4, 5], "gone is what was requeued long ago");
    let history = triage::history(platform.db(), None, None, 10).await.expect("the history");
    assert_eq!(history.len(), 4, "including the history of the deleted letter");
    let actions = triage::history(platform.db(), Some(3), None, 10).await.expect("its history");
    let [action] = &actions[..] else { panic!("one action, not {actions:?}") };
    assert_eq!([&action.queue, &action.tenant, &action.act], ["work", "acme", "requeued"]);
}

#[tokio::test]
async fn handling_a_backlog_leaves_no_dead_rows_in_the_log() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", (0..2_000).map(|n| numbered("acme", "a", n))).await;
    platform.run_consumers();
    drained(&owner).await;
    let (clean, _database) = platform.stop().await;
    assert!(clean);
    let log = "SELECT n_dead_tup + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'message_log_1'";
    let written = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'message_log_1'";
    eventually("the statistics are there", || async { (count(&owner, written).await == 2_000).then_some(()) }).await;
    assert_eq!(count(&owner, log).await, 0);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.lane_turn").await, 1, "turns accumulate");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.turn_start").await, 0, "begun turns pile up");
}

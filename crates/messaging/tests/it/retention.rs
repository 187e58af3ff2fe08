//! Retention: history leaves by partition, what is unread stays, and hot tables stay small.

use crate::support::{
    Probe, consumer, count, drained, effects_reach, job, numbered, one_lane, platform, publish, publish_names,
};
use onceward::transport_postgres::retention::{Retention, sweep};
use onceward_testkit::{TestPlatform, eventually};
use std::sync::atomic::{AtomicI64, Ordering};

/// Everything is old at once.
const AT_ONCE: Retention = Retention { epoch_s: 0, keep_s: 0, inbox_s: 0, letters_s: 0 };
const PARTITIONS: &str = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'onceward.message_log'::regclass";

/// Sweeps until the count is at most `most`. A lane that was read while others wrote is only done with a partition once
/// it has looked again after them, so one sweep may come too early.
async fn swept_until(platform: &TestPlatform, sql: &str, most: i64, forgotten: &AtomicI64) {
    let owner = platform.database().owner().await;
    eventually("old partitions are gone", || async {
        let swept = sweep(platform.db(), AT_ONCE).await.ok()?;
        forgotten.fetch_add(swept.forgotten, Ordering::SeqCst);
        (count(&owner, sql).await <= most).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_partition_is_dropped_when_it_is_old_and_read_and_its_keys_are_forgotten() {
    let (probe, _calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").once_per("k"), job("acme", "b")]).await;

    let swept = sweep(platform.db(), AT_ONCE).await.expect("it sweeps");
    assert!(swept.opened);
    assert_eq!((swept.dropped, swept.forgotten), (0, 0), "unread messages were dropped");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log_1").await, 2);

    platform.run_consumers();
    effects_reach(&owner, 2).await;
    drained(&owner).await;
    let forgotten = AtomicI64::new(0);
    swept_until(&platform, "SELECT count(*) FROM onceward.message_log", 0, &forgotten).await;
    assert_eq!(forgotten.into_inner(), 1, "keys that were forgotten");

    // The key may be used again, and the lane goes on where it was.
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
        sweep(platform.db(), AT_ONCE).await.expect("it sweeps");
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
    eventually("it is put aside", || async { (count(&owner, aside).await == 1).then_some(()) }).await;
    sweep(platform.db(), AT_ONCE).await.expect("it sweeps");
    eventually("its partition is gone", || async {
        let dropped = sweep(platform.db(), AT_ONCE).await.ok()?;
        (count(&owner, "SELECT count(*) FROM onceward.message_log").await == 0).then_some(dropped)
    })
    .await;
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
}

#[tokio::test]
async fn inbox_rows_are_forgotten_after_their_time() {
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
    assert_eq!(sweep(platform.db(), keep).await.expect("it sweeps").forgotten, 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.inbox").await, 1);
}

#[tokio::test]
async fn dead_letters_are_forgotten_some_time_after_they_were_requeued_and_never_before() {
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
             INSERT INTO onceward.dead_letter_act (dead_letter_id, act, actor, why, at)
             VALUES (3, 'requeued', 'olga', 'mended', now() - interval '2 hours'), (4, 'requeued', 'olga', 'mended', now()),
                 (5, 'requeued', 'olga', 'mended', now());
             UPDATE onceward.dead_letters SET status = 'requeued' WHERE id > 2",
        )
        .await
        .expect("one that nobody looked at, one in quarantine, and three that were requeued");
    let keep = Retention { letters_s: 3_600, ..Retention::default() };
    assert_eq!(sweep(platform.db(), keep).await.expect("it sweeps").letters, 1);
    let left = owner.query("SELECT id FROM onceward.dead_letters ORDER BY id", &[]).await.expect("letters");
    let left: Vec<i64> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [1, 2, 4, 5], "gone is what was requeued long ago");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letter_act").await, 4, "history");
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
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.lane_turn").await, 1, "turns pile up");
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.turn_start").await, 0, "begun turns pile up");
}

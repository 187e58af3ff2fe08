//! Metrics count failed messages and those behind them, and show where counting stopped.

use crate::support::{Probe, consumer, count, job, one_lane, platform, publish};
use onceward::{
    Failure,
    message_log::stats::{QueueStats, SAMPLE, at_least, queue_stats},
};
use onceward_testkit::{TestPlatform, eventually};

async fn queue_figures(platform: &TestPlatform) -> QueueStats {
    let all = queue_stats(platform.db()).await.expect("figures");
    all.into_iter().find(|stats| stats.queue == crate::support::QUEUE).expect("the queue's")
}

#[tokio::test]
async fn messages_in_retry_and_behind_them_are_counted_with_their_age() {
    let (probe, _calls) = Probe::new(|_, _| {
        Box::pin(async { Err(Failure::retry_after(std::time::Duration::from_secs(3_600), "not today")) })
    });
    let mut platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", (0..5).map(|n| job("acme", &n.to_string()).ordered_by("k"))).await;
    owner
        .batch_execute("UPDATE onceward.message_log SET created_at = created_at - interval '90 s'")
        .await
        .expect("aged");
    platform.run_consumers();
    let stats = eventually("all are deferred", || async {
        let stats = queue_figures(&platform).await;
        (stats.depth == 0 && stats.deferred == 5).then_some(stats)
    })
    .await;
    let parked = "SELECT count(*) FROM onceward.deferred WHERE due_at IS NULL";
    assert_eq!(count(&owner, parked).await, 4, "all but the first stand behind it");
    assert!((90.0..600.0).contains(&stats.lag_seconds), "{stats:?}");
    assert!(!stats.deferred_is_more);
}

#[tokio::test]
async fn a_delayed_message_does_not_count_as_lag_before_it_is_due() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "later").after(std::time::Duration::from_secs(3_600))]).await;
    owner.batch_execute("UPDATE onceward.deferred SET created_at = created_at - interval '90 s'").await.expect("aged");
    let stats = queue_figures(&platform).await;
    assert_eq!((stats.deferred, stats.lag_seconds), (1, 0.0));
    owner.batch_execute("UPDATE onceward.deferred SET due_at = now() - interval '30 s'").await.expect("it is due");
    let stats = queue_figures(&platform).await;
    assert!((30.0..90.0).contains(&stats.lag_seconds), "{stats:?}");
}

#[tokio::test]
async fn a_truncated_count_is_reported_as_truncated() {
    let (probe, _calls) = Probe::good();
    let platform = platform(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let most = usize::try_from(SAMPLE).expect("small");
    let later = |n: usize| job("acme", &n.to_string()).after(std::time::Duration::from_secs(3_600));
    publish(platform.db(), "acme", (0..most).map(later)).await;
    let stats = queue_figures(&platform).await;
    assert_eq!((at_least(stats.deferred, stats.deferred_is_more), stats.dead_is_more), ("1000".into(), false));
    publish(platform.db(), "acme", [later(most)]).await;
    let letters = "INSERT INTO onceward.dead_letters (event_id, tenant_id, queue, consumer, event_type, version, correlation_id, reason,
                       attempts, message)
                   SELECT gen_random_uuid(), 'acme', $1, 'worker', 'job.done', 1, 'c', 'malformed', 1, '{}' FROM generate_series(1, 1001)";
    owner.execute(letters, &[&crate::support::QUEUE]).await.expect("letters");
    let stats = queue_figures(&platform).await;
    assert_eq!(at_least(stats.deferred, stats.deferred_is_more), "1000+");
    assert_eq!(at_least(stats.dead, stats.dead_is_more), "1000+");
}

//! Delays and priorities.

use crate::support::{Probe, consumer, drained, effects, job, one_lane, platform, publish, publish_names, running};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_delayed_message_is_handled_after_its_delay_and_blocks_no_other() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let published = Instant::now();
    publish(platform.db(), "acme", [job("acme", "later").ordered_by("k").after(Duration::from_millis(500))]).await;
    publish(platform.db(), "acme", [job("acme", "now").ordered_by("k")]).await;
    assert_eq!(calls.next().await.name, "now");
    let seen = calls.next().await;
    assert_eq!((seen.name.as_str(), seen.attempt), ("later", 1));
    assert!(seen.at - published >= Duration::from_millis(500), "{:?}", seen.at - published);
}

#[tokio::test]
async fn a_delayed_message_is_published_once_per_key_and_not_at_all_if_rolled_back() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let delayed = || job("acme", "later").once_per("k").after(Duration::from_millis(50));
    let mut undone = platform.db().begin(crate::support::scope("acme")).await.expect("a connection");
    onceward::outbox::send(&mut undone, delayed()).await.expect("accepted");
    drop(undone);
    publish(platform.db(), "acme", [delayed()]).await;
    publish(platform.db(), "acme", [delayed()]).await;
    assert_eq!(calls.next().await.name, "later");
    drained(&owner).await;
    assert_eq!(effects(&owner).await, ["later"]);
}

#[tokio::test]
async fn a_delay_requested_in_sql_is_respected() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    let enqueued = Instant::now();
    owner
        .batch_execute(
            "SELECT onceward.enqueue('acme', 'probe.events:tenant.acme.job', 'probe.job.v1', '{\"name\": \"later\"}',
                                     p_delay => interval '400 ms')",
        )
        .await
        .expect("it is accepted");
    let seen = calls.next().await;
    assert!(seen.at - enqueued >= Duration::from_millis(400), "{:?}", seen.at - enqueued);
}

#[tokio::test]
async fn waiting_messages_of_higher_priority_are_handled_first() {
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane().max_priority(9), consumer(probe).concurrency(1).prefetch(8)).await;
    publish_names(platform.db(), "acme", &["low"; 20]).await;
    publish(platform.db(), "acme", (0..20).map(|_| job("acme", "middle").with_priority(5))).await;
    publish(platform.db(), "acme", (0..20).map(|_| job("acme", "high").with_priority(9))).await;
    platform.run_consumers();
    let names = calls.names(60).await;
    let expected: Vec<&str> = [["high"; 20], ["middle"; 20], ["low"; 20]].concat();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_queue_without_priorities_ignores_them() {
    let (probe, mut calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(probe).concurrency(1)).await;
    publish(platform.db(), "acme", [job("acme", "first"), job("acme", "second").with_priority(9)]).await;
    platform.run_consumers();
    assert_eq!(calls.names(2).await, ["first", "second"]);
}

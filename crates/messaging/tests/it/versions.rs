//! Versions: newer ones wait for a worker that knows them, older ones are not kept waiting.

use crate::support::{
    Probe, ProbeV2, consumer, dead_letters, drained, effects, enqueue, instance_with, one_lane, platform,
    publish_names, quick, service,
};
use onceward::Consumer;
use onceward_testkit::eventually;
use serde_json::json;

#[tokio::test]
async fn a_newer_version_waits_without_attempts_until_a_worker_that_knows_it_starts() {
    let (old, mut old_calls) = Probe::good();
    let mut platform = platform(one_lane(), consumer(old)).await;
    let owner = platform.database().owner().await;
    platform.run_consumers();
    enqueue(&owner, "acme", "probe.job.v2", &json!({"name": "newer"})).await;
    let waits = "SELECT attempts FROM onceward.deferred WHERE state = 'waiting'";
    let attempts: i32 =
        eventually("it waits", || async { Some(owner.query_opt(waits, &[]).await.ok()??.get(0)) }).await;
    assert_eq!(attempts, 0);
    // What the old worker knows goes on meanwhile.
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
async fn a_version_that_is_no_longer_handled_is_a_dead_letter() {
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

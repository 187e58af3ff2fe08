//! Order per key: one after the other, in commit order, with any number of workers.

use crate::support::{
    GENEROUS, Probe, consumer, dead_letters, drained, effects_reach, job, numbered, one_lane, platform, publish, quick,
    running, scope,
};
use onceward::{Failure, Queue, outbox};
use onceward_testkit::TestPlatform;
use proptest::prelude::*;
use std::{collections::BTreeMap, time::Duration};
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// The failures of a key's messages: a message fails if its number is a multiple of one of these.
#[derive(Clone, Copy, Debug)]
struct FailurePlan {
    retry_each: i64,
    snooze_each: i64,
    dead_each: i64,
}

fn failing_by_plan(plan: FailurePlan) -> Probe {
    let (probe, _calls) = Probe::new(move |_, seen| {
        Box::pin(async move {
            let first = seen.attempt == 1;
            match seen.number {
                n if n % plan.dead_each == 0 => Err(Failure::permanent("never")),
                n if first && n % plan.retry_each == 0 => Err(Failure::transient("again")),
                n if first && n % plan.snooze_each == 0 && rand::random::<bool>() => {
                    Err(Failure::snooze(Duration::from_millis(5), "later"))
                }
                _ => Ok(()),
            }
        })
    });
    probe
}

/// Publishes the key's next number. The lock on the counter's row ensures that numbers follow the order of commits.
async fn publish_next(platform: &onceward::Db, key: &str) {
    let mut tx = platform.begin(scope("acme")).await.expect("a connection");
    let row = tx
        .query_one(
            "INSERT INTO probe.counter AS c (tenant_id, key, n) VALUES ('acme', $1, 1)
             ON CONFLICT (tenant_id, key) DO UPDATE SET n = c.n + 1 RETURNING n",
            &[&key],
        )
        .await
        .expect("the next number");
    let message = numbered("acme", key, row.get(0)).ordered_by(key);
    outbox::send(&mut tx, message).await.expect("accepted");
    tx.commit().await.expect("it commits");
}

/// Returns the numbers of each key, in the order in which they took effect.
async fn numbers(owner: &Client) -> BTreeMap<String, Vec<i64>> {
    let mut numbers: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in owner.query("SELECT name, number FROM probe.effect ORDER BY id", &[]).await.expect("rows") {
        numbers.entry(row.get(0)).or_default().push(row.get(1));
    }
    numbers
}

async fn keys_stay_in_order(keys: Vec<u8>, plan: FailurePlan, prefetch: usize) {
    let queue = Queue::work(crate::support::QUEUE).dead_letter("probe.dlq").shards(3);
    let consumer = consumer(failing_by_plan(plan)).retry(quick(3).initial_ms(3)).concurrency(3).prefetch(prefetch);
    let mut platform = platform(queue, consumer).await;
    let owner = platform.database().owner().await;
    let (mut second, stop) = platform.another_instance();
    platform.run_consumers();
    second.run_consumers();
    let mut publishers = JoinSet::new();
    for (n, share) in keys.chunks(keys.len().div_ceil(4)).enumerate() {
        let share = share.to_vec();
        let db = if n % 2 == 0 { platform.db() } else { second.db() }.clone();
        publishers.spawn(async move {
            for key in share {
                publish_next(&db, &format!("key-{key}")).await;
            }
        });
    }
    publishers.join_all().await;
    drained(&owner).await;
    let mut published: BTreeMap<String, i64> = BTreeMap::new();
    keys.iter().for_each(|key| *published.entry(format!("key-{key}")).or_default() += 1);
    let handled = numbers(&owner).await;
    for (key, last) in published {
        let expected: Vec<i64> = (1..=last).filter(|n| n % plan.dead_each != 0).collect();
        assert_eq!(handled.get(&key).cloned().unwrap_or_default(), expected, "{key}");
    }
    stop.cancel();
    assert!(second.finished().await);
    assert!(platform.stop().await.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_of_a_key_take_effect_in_the_order_of_their_commits(
        keys in prop::collection::vec(0..6_u8, 40..160),
        retry_each in 2..9_i64,
        snooze_each in 2..9_i64,
        dead_each in 5..12_i64,
        prefetch in prop_oneof![Just(1_usize), Just(4), Just(100)],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(keys_stay_in_order(keys, FailurePlan { retry_each, snooze_each, dead_each }, prefetch));
    }
}

fn first_of_k_fails() -> Probe {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match (seen.name.as_str(), seen.attempt) {
                ("k1", 1) => Err(Failure::retry_after(Duration::from_millis(300), "not now")),
                _ => Ok(()),
            }
        })
    });
    probe
}

async fn two_keys(platform: &TestPlatform) {
    let names = ["k1", "k2", "o1", "k3", "o2"];
    publish(platform.db(), "acme", names.iter().map(|name| job("acme", name).ordered_by(&name[..1]))).await;
}

#[tokio::test]
async fn followers_wait_behind_a_retry_while_other_keys_continue() {
    let mut platform = platform(one_lane(), consumer(first_of_k_fails())).await;
    let owner = platform.database().owner().await;
    two_keys(&platform).await;
    platform.run_consumers();
    assert_eq!(effects_reach(&owner, 2).await, ["o1", "o2"]);
    // Messages that arrive while it waits stand behind it as well.
    publish(platform.db(), "acme", [job("acme", "k4").ordered_by("k"), job("acme", "o3").ordered_by("o")]).await;
    assert_eq!(effects_reach(&owner, 7).await, ["o1", "o2", "o3", "k1", "k2", "k3", "k4"]);
}

#[tokio::test]
async fn an_unordered_consumer_lets_followers_pass() {
    let consumer = consumer(first_of_k_fails()).unordered();
    let mut platform = platform(one_lane(), consumer).await;
    let owner = platform.database().owner().await;
    two_keys(&platform).await;
    platform.run_consumers();
    assert_eq!(effects_reach(&owner, 5).await, ["k2", "o1", "k3", "o2", "k1"]);
}

#[tokio::test]
async fn followers_continue_when_the_message_before_them_is_dead() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match seen.name.as_str() {
                "k1" => Err(Failure::transient("never")),
                _ => Ok(()),
            }
        })
    });
    let platform = running(one_lane(), consumer(probe).budget(GENEROUS)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", ["k1", "k2", "k3"].map(|name| job("acme", name).ordered_by("k"))).await;
    assert_eq!(dead_letters(&owner, 1).await[0].name.as_deref(), Some("k1"));
    assert_eq!(effects_reach(&owner, 2).await, ["k2", "k3"]);
}

#[tokio::test]
async fn the_same_key_of_two_tenants_is_ordered_separately() {
    let (probe, _calls) = Probe::new(|_, seen| {
        Box::pin(async move {
            match (seen.tenant.as_str(), seen.attempt) {
                ("acme", 1) => Err(Failure::retry_after(Duration::from_secs(3600), "not today")),
                _ => Ok(()),
            }
        })
    });
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k")]).await;
    publish(platform.db(), "globex", [job("globex", "g").ordered_by("k")]).await;
    assert_eq!(effects_reach(&owner, 1).await, ["g"]);
}

//! One tenant's backlog delays another tenant's first message by no more than a batch.

use crate::support::{Probe, consumer, numbered, platform, publish};
use onceward::Queue;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{oneshot, watch};

const PREFETCH: usize = 50;
const BACKLOG: i64 = 20_000;

/// Uses one worker: with several, the result would depend on how long the one with the small tenant's message waits
/// for a CPU.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_a_long_backlog_delays_another_by_no_more_than_a_batch() {
    let big = Arc::new(AtomicUsize::new(0));
    let (handled, small) = oneshot::channel();
    let handled = parking_lot::Mutex::new(Some(handled));
    let counter = big.clone();
    // Closed while the small tenant publishes, so that no turn starts between its commit and the wake-up.
    let (gate, open) = watch::channel(true);
    let (probe, _calls) = Probe::new(move |_, seen| {
        let mut open = open.clone();
        if seen.tenant == "big" {
            counter.fetch_add(1, Ordering::SeqCst);
        } else if let Some(handled) = handled.lock().take() {
            let _ = handled.send(counter.load(Ordering::SeqCst));
        }
        Box::pin(async move {
            open.wait_for(|open| *open).await.expect("the gate is there");
            Ok(())
        })
    });
    let queue = Queue::work(crate::support::QUEUE).dead_letter("probe.dlq").shards(8);
    let consumer = consumer(probe).prefetch(PREFETCH).concurrency(1);
    let mut platform = platform(queue, consumer).await;
    for start in (0..BACKLOG).step_by(2_000) {
        publish(platform.db(), "big", (start..start + 2_000).map(|n| numbered("big", "one of many", n))).await;
    }
    platform.run_consumers();
    onceward_testkit::eventually("the backlog is worked on", || async {
        (big.load(Ordering::SeqCst) > 4 * PREFETCH).then_some(())
    })
    .await;

    gate.send_replace(false);
    publish(platform.db(), "small", [numbered("small", "the only one", 0)]).await;
    let before = big.load(Ordering::SeqCst);
    gate.send_replace(true);
    let between = small.await.expect("it is handled").saturating_sub(before);
    assert!(before < 19_000, "the backlog was over before it could matter: {before} handled");
    // The current turn is finished; in the next one the waiting tenant is first.
    assert!(between <= PREFETCH, "{between} of the big tenant's came first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_that_wait_together_are_served_in_turn() {
    let (probe, mut calls) = Probe::good();
    let queue = Queue::work(crate::support::QUEUE).dead_letter("probe.dlq").shards(1);
    let mut platform = platform(queue, consumer(probe).prefetch(10).concurrency(1)).await;
    for tenant in ["a", "b", "c", "d"] {
        publish(platform.db(), tenant, (0..300).map(|n| numbered(tenant, tenant, n))).await;
    }
    platform.run_consumers();
    let names = calls.names(1_200).await;
    let mut served: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for name in &names[..200] {
        *served.entry(name).or_default() += 1;
    }
    assert_eq!(served.len(), 4, "{served:?}");
    assert!(served.values().all(|&n| (30..=70).contains(&n)), "{served:?}");
}

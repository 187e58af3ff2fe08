//! One queue goes before another if a process does not have enough slots for both.

use crate::support::{Job, Probe, consumer, numbered, publish, service};
use onceward::{Consumer, Exchange, Queue, Service, Topology};
use onceward::{NewMessage, Platform, messaging::Event};
use onceward_testkit::{TestDb, TestPlatform};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

const URGENT: &str = "probe.urgent";
/// So many that a busy machine finds the urgent queue waiting long before the other one is drained.
const EACH: i64 = 1_000;

/// The same handler on a separate queue.
fn urgent(probe: Probe) -> Service {
    let topology = Topology::new()
        .exchange(Exchange::topic("probe.urgent.events"))
        .queue(Queue::work(URGENT).shards(1))
        .bind("probe.urgent.events", "#", URGENT);
    Service::new("urgent")
        .topology(topology)
        .consumer(Consumer::transactional("urgent", URGENT).on(probe).concurrency(1).prefetch(10).precedence(5))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_slot_the_queue_of_higher_precedence_is_drained_first() {
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let (noted, gate) = (order.clone(), Arc::new(Notify::new()));
    let opened = gate.clone();
    let (probe, mut calls) = Probe::new(move |_, seen| {
        let (noted, gate) = (noted.clone(), gate.clone());
        Box::pin(async move {
            if seen.name == "first" {
                gate.notified().await;
            }
            noted.lock().push(seen.name);
            Ok(())
        })
    });
    let usual = service(Queue::work(crate::support::QUEUE).dead_letter("probe.dlq").shards(1), {
        consumer(probe.clone()).concurrency(1).prefetch(10)
    });
    let platform = Platform::assemble(vec![usual, urgent(probe)]).expect("the services are assembled");
    let database = TestDb::for_platform(&platform).await;
    let mut platform = TestPlatform::with_config(database, platform, |config| config.workers.slots = 1);

    publish(platform.db(), "a", [numbered("a", "first", 0)]).await;
    platform.run_consumers();
    assert_eq!(calls.next().await.name, "first");
    // The only slot is in use. Both queues fill up behind it.
    publish(platform.db(), "a", (0..EACH).map(|n| numbered("a", "usual", n))).await;
    let hurried =
        |n| NewMessage::new(Job::TYPE, "probe.urgent.events:job", serde_json::json!({"name": "urgent", "number": n}));
    publish(platform.db(), "a", (0..EACH).map(hurried)).await;
    opened.notify_one();
    calls.names(2 * EACH as usize).await;

    let order = order.lock().clone();
    let last_urgent = order.iter().rposition(|name| name == "urgent").expect("they were handled");
    let before = order[..last_urgent].iter().filter(|name| *name == "usual").count();
    // The other queue keeps the slot until the urgent one is found waiting. With alternating turns nearly all of it
    // would come first.
    assert!(before <= EACH as usize / 2, "{before} of the other queue came before the last urgent one");
}

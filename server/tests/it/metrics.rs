//! `/metrics`: messages that no worker knows, messages without a queue, and counts that stop at a limit.

use crate::{
    cli_fixture::QUEUE,
    lending_process::{LendingProcesses, read_metrics},
};
use onceward_testkit::eventually;
use std::collections::HashMap;

/// Inserts deferred messages that were written two hours ago.
async fn insert_deferred(processes: &LendingProcesses, state: &str, count: i32) {
    let insert = r#"
        INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, tenant_id, created_at, message)
        SELECT onceward.lane_of(q.id, 'acme', 0::smallint, 0::smallint), q.id, n, $2, now() + interval '1 hour', false, 'acme',
               now() - interval '2 hours', '{"event_type": "order.placd", "version": 1}'
        FROM onceward.queue q, generate_series(1, $3::int) n
        WHERE q.name = $1"#;
    let inserted = processes.owner.execute(insert, &[&QUEUE, &state, &count]).await.expect("the messages are inserted");
    assert_eq!(inserted, u64::try_from(count).expect("a count"));
}

/// The metrics of a process.
struct ProcessMetrics(HashMap<String, f64>);

impl ProcessMetrics {
    /// Returns a metric of the orders' queue.
    fn of_queue(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("{name}{{queue=\"{QUEUE}\"}}")).copied()
    }

    /// Returns whether a count of the orders' queue stopped at its limit.
    fn is_more(&self, metric: &str) -> Option<f64> {
        let labels = [format!("queue=\"{QUEUE}\""), format!("figure=\"{metric}\"")];
        let mut series = self.0.iter().filter(|(name, _)| name.starts_with("onceward_count_is_more{"));
        series.find(|(name, _)| labels.iter().all(|label| name.contains(label))).map(|(_, value)| *value)
    }

    fn unknown(&self) -> Option<f64> {
        self.of_queue("onceward_unknown_messages")
    }

    fn unknown_for_s(&self) -> Option<f64> {
        self.of_queue("onceward_unknown_messages_oldest_seconds")
    }

    /// Returns whether a count that belongs to no queue stopped at its limit.
    fn is_more_in_all(&self, metric: &str) -> Option<f64> {
        self.0.get(&format!("onceward_count_is_more{{figure=\"{metric}\"}}")).copied()
    }

    fn unrouted(&self) -> Option<f64> {
        self.0.get("onceward_unrouted_messages").copied()
    }

    fn deferred(&self) -> Option<f64> {
        self.of_queue("onceward_deferred_messages")
    }
}

/// Polls until the condition holds: the metrics are read from the database at most once per second.
async fn wait_until(url: &str, what: &str, condition: impl Fn(&ProcessMetrics) -> bool) -> ProcessMetrics {
    eventually(what, || async { Some(ProcessMetrics(read_metrics(url).await)).filter(&condition) }).await
}

#[tokio::test]
async fn unknown_messages_are_counted_by_queue_with_the_age_of_the_oldest() {
    let mut processes = LendingProcesses::new(&[]).await;
    let api = processes.start(&["api"]).await;
    let none = |found: &ProcessMetrics| (found.unknown(), found.unknown_for_s()) == (Some(0.0), Some(0.0));
    wait_until(&api, "there is none", none).await;

    insert_deferred(&processes, "unknown", 3).await;
    let found = wait_until(&api, "they are counted", |found| found.unknown() == Some(3.0)).await;
    let age_s = found.unknown_for_s().expect("it is reported");
    assert!((7_200.0..10_800.0).contains(&age_s), "{age_s}");
    let everywhere = found.0.iter().filter(|(name, _)| name.starts_with("onceward_unknown_messages{"));
    assert_eq!(everywhere.map(|(_, value)| value).sum::<f64>(), 3.0, "no other queue has any");

    assert_eq!(found.is_more("onceward_unknown_messages"), Some(0.0));
    insert_deferred(&processes, "unknown", 998).await;
    let more = |found: &ProcessMetrics| found.is_more("onceward_unknown_messages") == Some(1.0);
    let found = wait_until(&api, "there are more than are counted", more).await;
    assert_eq!(found.unknown(), Some(1_000.0));
    processes.owner.batch_execute("DELETE FROM onceward.deferred").await.expect("the owner may delete them");
    wait_until(&api, "there is none any more", none).await;
    processes.stop().await;
}

#[tokio::test]
async fn unrouted_messages_are_counted_and_a_count_that_stopped_at_its_limit_says_so() {
    let mut processes = LendingProcesses::new(&[]).await;
    let api = processes.start(&["api"]).await;
    wait_until(&api, "every message has a queue", |found| found.unrouted() == Some(0.0)).await;
    let enqueue = "SELECT onceward.enqueue('acme', 'ls.events:tenant.acme.nobody.listens', 'nobody.listens.v1', '{}')";
    for _ in 0..3 {
        processes.owner.batch_execute(enqueue).await.expect("the message is published");
    }
    let found = wait_until(&api, "those without a queue are counted", |found| found.unrouted() == Some(3.0)).await;
    assert_eq!(found.is_more_in_all("onceward_unrouted_messages"), Some(0.0));
    let many = format!("{enqueue} FROM generate_series(1, 1000)");
    processes.owner.batch_execute(&many).await.expect("the messages are published");
    let more = |found: &ProcessMetrics| found.is_more_in_all("onceward_unrouted_messages") == Some(1.0);
    let found = wait_until(&api, "there are more than are counted", more).await;
    assert_eq!(found.unrouted(), Some(1_000.0));
    let unsubscribed_event =
        "SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.settled', 'order.settled.v1', '{}')";
    processes.owner.batch_execute(unsubscribed_event).await.expect("the message is published");
    let unsubscribed = |found: &ProcessMetrics| found.0.get("onceward_unsubscribed_messages") == Some(&1.0);
    let found = wait_until(&api, "an event without subscribers has its own metric", unsubscribed).await;
    assert_eq!(found.is_more_in_all("onceward_unsubscribed_messages"), Some(0.0));

    insert_deferred(&processes, "retry", 1_000).await;
    let found = wait_until(&api, "all are counted", |found| found.deferred() == Some(1_000.0)).await;
    assert_eq!(found.is_more("onceward_deferred_messages"), Some(0.0));
    insert_deferred(&processes, "retry", 1).await;
    let more = |found: &ProcessMetrics| found.is_more("onceward_deferred_messages") == Some(1.0);
    let found = wait_until(&api, "there is more than is counted", more).await;
    assert_eq!(found.deferred(), Some(1_000.0));
    assert_eq!(found.is_more("onceward_dead_letters_open"), Some(0.0), "every metric has its own flag");
    processes.stop().await;
}

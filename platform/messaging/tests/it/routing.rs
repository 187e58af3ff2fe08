//! Routing in SQL and in Rust: the same queues for the same key, whatever the pattern.

use onceward::{Exchange, NewMessage, Queue, Service, Topology};
use onceward_testkit::TestPlatform;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use std::collections::BTreeMap;

const SCHEMA: &str = r#"{"$id": "probe.any.v1", "type": "object"}"#;

fn words(choice: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(choice), 0..5).prop_map(|words| words.join("."))
}

fn patterns() -> impl Strategy<Value = String> {
    words(&["a", "b", "*", "#", "", "a+b", "(x)", "a*", "ä", "\\d", "^", "$"])
}

fn keys() -> impl Strategy<Value = String> {
    words(&["a", "b", "c", "", "a+b", "aab", "(x)", "a*", "ä", "7", "\\d", "^", "$"])
}

/// Returns the first `count` values of a strategy, the same in every run.
fn sample<T>(runner: &mut TestRunner, strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    (0..count).map(|_| strategy.new_tree(runner).expect("a value").current()).collect()
}

/// One queue per pattern, on an exchange of each kind.
fn topology(patterns: &[String]) -> Topology {
    let mut topology = Topology::new()
        .exchange(Exchange::topic("by-topic"))
        .exchange(Exchange::direct("by-name"))
        .exchange(Exchange::fanout("to-all"));
    for (n, pattern) in patterns.iter().enumerate() {
        let queue = format!("q{n:03}");
        topology = topology.queue(Queue::work(&queue).shards(1));
        for exchange in ["by-topic", "by-name"] {
            topology = topology.bind(exchange, pattern, &queue);
        }
        if n < 3 {
            topology = topology.bind("to-all", "", &queue);
        }
    }
    topology
}

#[tokio::test]
async fn sql_and_rust_route_every_key_to_the_same_queues() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let patterns = sample(&mut runner, patterns(), 60);
    let keys = sample(&mut runner, keys(), 150);
    let topology = topology(&patterns);
    let service = Service::new("probe").schemas(&[SCHEMA]).topology(topology.clone());
    let platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    let topics: Vec<String> = ["by-topic", "by-name", "to-all"]
        .iter()
        .flat_map(|exchange| keys.iter().map(move |key| format!("{exchange}:{key}")))
        .collect();
    owner
        .execute("SELECT onceward.enqueue('sql', t, 'probe.any.v1', '{}') FROM unnest($1::text[]) AS t", &[&topics])
        .await
        .expect("it is accepted");
    let messages = topics.iter().map(|topic| NewMessage::new("probe.any.v1", topic, serde_json::json!({})));
    crate::support::publish(platform.db(), "rust", messages).await;

    let sql = "SELECT m.tenant_id, m.topic, coalesce(string_agg(DISTINCT q.name, ',' ORDER BY q.name), '')
               FROM onceward.message_log m LEFT JOIN onceward.lane l ON l.id = m.lane_id
               LEFT JOIN onceward.queue q ON q.id = l.queue_id GROUP BY 1, 2";
    let mut stored: BTreeMap<(String, String), String> = BTreeMap::new();
    for row in owner.query(sql, &[]).await.expect("rows") {
        stored.insert((row.get(0), row.get(1)), row.get(2));
    }
    let mut routed = 0;
    for topic in &topics {
        let (exchange, key) = topic.split_once(':').expect("a topic");
        let expected = topology.route(exchange, key).expect("a declared exchange").join(",");
        routed += usize::from(!expected.is_empty());
        for tenant in ["sql", "rust"] {
            let found = &stored[&(tenant.to_owned(), topic.clone())];
            assert_eq!(*found, expected, "{topic:?} from {tenant}");
        }
    }
    assert!(routed > 100, "only {routed} keys met a pattern: the sample shows nothing");
}

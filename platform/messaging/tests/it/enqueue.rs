//! `onceward.enqueue` and `onceward.record_inbox`, as teams in other languages call them.

use crate::support::{Probe, bare_service, consumer, count, enqueue, job, one_lane, publish, running};
use onceward::Queue;
use onceward_testkit::{TestPlatform, eventually};
use serde_json::json;
use tokio_postgres::Client;

const LOGGED: &str = "SELECT count(*) FROM onceward.message_log";

async fn wide_platform() -> TestPlatform {
    let queue = Queue::work(crate::support::QUEUE).dead_letter("probe.dlq").shards(8).max_priority(5);
    TestPlatform::new(vec![bare_service(queue)]).await
}

/// Calls `onceward.enqueue` with a key of each kind; returns whether it was published.
async fn enqueue_once(client: &Client, tenant: &str, key: &str) -> bool {
    let topic = format!("probe.events:tenant.{tenant}.job");
    let row = client
        .query_one(
            "SELECT onceward.enqueue($1, $2, 'probe.job.v1', '{\"number\": 0, \"name\": \"sql\"}', $3) IS NOT NULL",
            &[&tenant, &topic, &key],
        )
        .await;
    row.expect("it is accepted").get(0)
}

#[tokio::test]
async fn a_message_enqueued_from_sql_is_handled_like_any_other() {
    let (probe, mut calls) = Probe::good();
    let platform = running(one_lane(), consumer(probe)).await;
    let owner = platform.database().owner().await;
    enqueue(&owner, "acme", "probe.job.v1", &json!({"name": "from sql"})).await;
    let seen = calls.next().await;
    assert_eq!((seen.name.as_str(), seen.tenant.as_str(), seen.attempt), ("from sql", "acme", 1));
}

#[tokio::test]
async fn sql_and_rust_assign_a_key_to_the_same_lane_and_digest() {
    let platform = wide_platform().await;
    let owner = platform.database().owner().await;
    let keys: Vec<String> = (0..60).map(|n| format!("schlüssel-{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        let priority = u8::try_from(n % 8).expect("small");
        let message = job("acme", "rust").ordered_by(key).with_priority(priority);
        publish(platform.db(), "acme", [message]).await;
    }
    owner
        .execute(
            "SELECT onceward.enqueue('acme', 'probe.events:tenant.acme.job', 'probe.job.v1', '{\"name\": \"sql\"}',
                                     p_ordering_key => k, p_priority => (n - 1)::int % 8)
             FROM unnest($1::text[]) WITH ORDINALITY AS u(k, n)",
            &[&keys],
        )
        .await
        .expect("it is accepted");
    let apart = "SELECT count(*) FROM onceward.message_log r JOIN onceward.message_log s USING (ordering_key)
                 WHERE r.payload->>'name' = 'rust' AND s.payload->>'name' = 'sql' AND r.lane_id <> s.lane_id";
    assert_eq!(count(&owner, apart).await, 0);
    assert_eq!(count(&owner, LOGGED).await, 120);
    assert!(count(&owner, "SELECT count(DISTINCT lane_id) FROM onceward.message_log").await > 8);

    // A key used through SQL is known to Rust publishers and vice versa.
    publish(platform.db(), "acme", [job("acme", "sql").once_per("clé-1")]).await;
    assert!(!enqueue_once(&owner, "acme", "clé-1").await);
    assert!(enqueue_once(&owner, "acme", "clé-2").await);
    publish(platform.db(), "acme", [job("acme", "sql").once_per("clé-2")]).await;
    assert_eq!(count(&owner, LOGGED).await, 122);
}

#[tokio::test]
async fn a_duplicate_returns_null_only_for_its_own_tenant() {
    let platform = wide_platform().await;
    let owner = platform.database().owner().await;
    assert!(enqueue_once(&owner, "acme", "k").await);
    assert!(!enqueue_once(&owner, "acme", "k").await);
    assert!(enqueue_once(&owner, "globex", "k").await);
    assert_eq!(count(&owner, LOGGED).await, 2);
}

#[tokio::test]
async fn a_rolled_back_transaction_enqueued_nothing() {
    let platform = wide_platform().await;
    let owner = platform.database().owner().await;
    owner.batch_execute("BEGIN").await.expect("it begins");
    assert!(enqueue_once(&owner, "acme", "k").await);
    owner.batch_execute("ROLLBACK").await.expect("it rolls back");
    assert_eq!(count(&owner, LOGGED).await, 0);
    assert!(enqueue_once(&owner, "acme", "k").await);
}

/// Runs two transactions with the same key at once: the second waits for the first. Returns whether the second
/// published.
async fn second_of_two(first_ends_with: &str) -> bool {
    let platform = wide_platform().await;
    let (first, second) = (platform.database().owner().await, platform.database().owner().await);
    first.batch_execute("BEGIN").await.expect("it begins");
    assert!(enqueue_once(&first, "acme", "k").await);
    let waiting = tokio::spawn(async move { enqueue_once(&second, "acme", "k").await });
    let watcher = platform.database().owner().await;
    eventually("the second waits for the first", || async {
        let waiters =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        (count(&watcher, waiters).await == 1).then_some(())
    })
    .await;
    first.batch_execute(first_ends_with).await.expect("it ends");
    waiting.await.expect("the second returns")
}

#[tokio::test]
async fn the_second_of_two_transactions_with_one_key_waits_and_publishes_nothing() {
    assert!(!second_of_two("COMMIT").await);
}

#[tokio::test]
async fn the_second_of_two_transactions_with_one_key_publishes_if_the_first_rolls_back() {
    assert!(second_of_two("ROLLBACK").await);
}

#[tokio::test]
async fn a_rust_publisher_waits_for_an_open_transaction_with_its_key_as_well() {
    let platform = wide_platform().await;
    let first = platform.database().owner().await;
    first.batch_execute("BEGIN").await.expect("it begins");
    assert!(enqueue_once(&first, "acme", "k").await);
    let db = platform.db().clone();
    let second = tokio::spawn(async move { publish(&db, "acme", [job("acme", "sql").once_per("k")]).await });
    let watcher = platform.database().owner().await;
    eventually("the second waits for the first", || async {
        let waiters =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        (count(&watcher, waiters).await == 1).then_some(())
    })
    .await;
    first.batch_execute("COMMIT").await.expect("it commits");
    second.await.expect("the second returns");
    assert_eq!(count(&watcher, LOGGED).await, 1);
}

#[tokio::test]
async fn invalid_input_returns_a_clear_error_and_writes_nothing() {
    let platform = wide_platform().await;
    let owner = platform.database().owner().await;
    let cases = [
        ("'a.b', 'probe.events:x', 'probe.job.v1', '{}'", "tenant must be"),
        ("'', 'probe.events:x', 'probe.job.v1', '{}'", "tenant must be"),
        ("NULL, 'probe.events:x', 'probe.job.v1', '{}'", "tenant must be"),
        ("'acme', 'probe.events', 'probe.job.v1', '{}'", "topic must be"),
        ("'acme', NULL, 'probe.job.v1', '{}'", "topic must be"),
        ("'acme', 'nowhere:x', 'probe.job.v1', '{}'", "exchange \"nowhere\" is not declared"),
        ("'acme', 'probe.events:x', 'probe.job', '{}'", "event type must end"),
        ("'acme', 'probe.events:x', 'probe.job.v0', '{}'", "event type must end"),
        ("'acme', 'probe.events:x', 'probe.job.v99999', '{}'", "event type must end"),
        ("'acme', 'probe.events:x', NULL, '{}'", "event type must end"),
        ("'acme', 'probe.events:x', 'probe.job.v1', '[]'", "payload must be a JSON object"),
        ("'acme', 'probe.events:x', 'probe.job.v1', NULL", "payload must be a JSON object"),
        ("'acme', 'probe.events:x', 'probe.job.v1', '{}', ''", "1 to 255"),
        ("'acme', 'probe.events:x', 'probe.job.v1', '{}', repeat('k', 256)", "1 to 255"),
        ("'acme', 'probe.events:x', 'probe.job.v1', '{}', NULL, repeat('k', 256)", "1 to 255"),
        ("'acme', 'probe.events:x', 'probe.job.v1', '{}', NULL, NULL, ''", "1 to 255"),
    ];
    for (arguments, reason) in cases {
        let error = owner.batch_execute(&format!("SELECT onceward.enqueue({arguments})")).await;
        let error = error.expect_err(arguments);
        let message = error.as_db_error().map_or("", |error| error.message());
        assert!(message.contains(reason), "{arguments}: {message}");
    }
    assert_eq!(count(&owner, LOGGED).await, 0);
}

#[tokio::test]
async fn a_transaction_of_one_tenant_cannot_enqueue_for_another() {
    let platform = wide_platform().await;
    let tx = platform.db().begin(crate::support::scope("acme")).await.expect("a connection");
    let error = tx
        .query("SELECT onceward.enqueue('globex', 'probe.events:x', 'probe.job.v1', '{\"name\": \"a\"}')", &[])
        .await
        .expect_err("another tenant");
    assert!(error.to_string().contains("another tenant"), "{error}");
}

#[tokio::test]
async fn record_inbox_returns_true_once_per_consumer_and_tenant() {
    let platform = wide_platform().await;
    let owner = platform.database().owner().await;
    let mut answers = Vec::new();
    for call in ["'acme', 'k'", "'acme', 'k'", "'acme', 'k', 'other'", "'globex', 'k'", "'acme', 'k', 'other'"] {
        let sql = format!("SELECT onceward.record_inbox({call})");
        answers.push(owner.query_one(&sql, &[]).await.expect("the query succeeds").get::<_, bool>(0));
    }
    assert_eq!(answers, [true, false, true, true, false]);
}

#[tokio::test]
async fn a_transaction_of_one_tenant_cannot_record_a_key_of_another() {
    let platform = wide_platform().await;
    let tx = platform.db().begin(crate::support::scope("acme")).await.expect("a connection");
    let error = tx.query("SELECT onceward.record_inbox('globex', 'k')", &[]).await.expect_err("another tenant");
    assert!(error.to_string().contains("another tenant"), "{error}");
}

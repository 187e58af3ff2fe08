//! Publishing: together with the state or not at all, once per key, and nothing that violates a rule.

use crate::support::{Job, bare_service, count, job, numbered, one_lane, publish, scope};
use onceward::{NewMessage, PublishError, Scope, Tx, envelope::Actor, message_log::unrouted::unrouted, outbox};
use onceward_testkit::TestPlatform;
use serde_json::json;

const LOGGED: &str = "SELECT count(*) FROM onceward.message_log";

async fn platform() -> TestPlatform {
    TestPlatform::new(vec![bare_service(one_lane())]).await
}

async fn tenants_count(tx: &Tx) {
    tx.execute("INSERT INTO probe.counter (tenant_id, key, n) VALUES ('acme', 'k', 1)", &[])
        .await
        .expect("the state is written");
}

#[tokio::test]
async fn state_and_message_are_committed_together() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    tenants_count(&tx).await;
    outbox::send(&mut tx, job("acme", "a")).await.expect("accepted");
    assert_eq!(count(&owner, LOGGED).await, 0);
    tx.commit().await.expect("it commits");
    assert_eq!(count(&owner, LOGGED).await, 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM probe.counter").await, 1);
}

#[tokio::test]
async fn a_rolled_back_transaction_publishes_nothing() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    tenants_count(&tx).await;
    outbox::send(&mut tx, job("acme", "a").once_per("k")).await.expect("accepted");
    tx.rollback().await.expect("it rolls back");
    let mut dropped = platform.db().begin(scope("acme")).await.expect("a connection");
    outbox::send(&mut dropped, job("acme", "a").once_per("k")).await.expect("accepted");
    drop(dropped);
    assert_eq!(count(&owner, LOGGED).await, 0);
    // The rolled-back transaction did not use up the key.
    publish(platform.db(), "acme", [job("acme", "a").once_per("k")]).await;
    assert_eq!(count(&owner, LOGGED).await, 1);
}

/// A single message is sent as text and several as parameters; neither may change a character.
#[tokio::test]
async fn text_round_trips_with_any_characters() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let text = r#"it's "$1"; \' E'\x27' -- /* */ COMMIT; {} \n ß 漢 🫖"#;
    let odd = || job("acme", text).ordered_by(text);
    publish(platform.db(), "acme", [odd().once_per(format!("alone {text}"))]).await;
    publish(platform.db(), "acme", [odd().once_per(format!("first {text}")), odd()]).await;
    let rows = owner
        .query("SELECT payload, ordering_key, idempotency_key FROM onceward.message_log ORDER BY seq", &[])
        .await
        .expect("rows");
    let keys: Vec<Option<String>> = rows.iter().map(|row| row.get(2)).collect();
    assert_eq!(keys, [Some(format!("alone {text}")), Some(format!("first {text}")), None]);
    for row in &rows {
        assert_eq!(row.get::<_, serde_json::Value>(0), odd().payload);
        assert_eq!(row.get::<_, &str>(1), text);
    }
}

#[tokio::test]
async fn many_messages_are_written_by_one_statement() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", (0..500).map(|n| numbered("acme", "many", n))).await;
    // Each call of the writing function reads the clock once.
    let row = owner
        .query_one("SELECT count(*), count(DISTINCT created_at), count(DISTINCT seq) FROM onceward.message_log", &[])
        .await
        .expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (500, 1, 500));
}

#[tokio::test]
async fn the_same_key_is_published_once_for_each_tenant() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    for tenant in ["acme", "globex", "acme", "globex"] {
        publish(platform.db(), tenant, [job(tenant, "a").once_per("order-1")]).await;
    }
    let tenants = "SELECT string_agg(tenant_id, ',' ORDER BY seq) FROM onceward.message_log";
    let row = owner.query_one(tenants, &[]).await.expect("a row");
    assert_eq!(row.get::<_, &str>(0), "acme,globex");
}

#[tokio::test]
async fn a_key_used_twice_in_one_transaction_is_published_once() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "old").once_per("k1")]).await;
    let batch = [
        job("acme", "old").once_per("k1"),
        job("acme", "new").once_per("k2"),
        job("acme", "new").once_per("k2"),
        job("acme", "free"),
        job("acme", "free"),
    ];
    publish(platform.db(), "acme", batch).await;
    let names = "SELECT string_agg(payload->>'name', ',' ORDER BY seq) FROM onceward.message_log";
    let row = owner.query_one(names, &[]).await.expect("a row");
    assert_eq!(row.get::<_, &str>(0), "old,new,free,free");
}

#[tokio::test]
async fn a_message_published_after_a_savepoint_is_rolled_back_with_it() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    outbox::send(&mut tx, job("acme", "before")).await.expect("accepted");
    let point = tx.savepoint();
    outbox::send(&mut tx, job("acme", "undone").once_per("k")).await.expect("accepted");
    tx.rollback_to(point).await.expect("undone");
    outbox::send(&mut tx, job("acme", "after").once_per("k")).await.expect("accepted");
    tx.release(point);
    tx.commit().await.expect("it commits");
    let names = "SELECT string_agg(payload->>'name', ',' ORDER BY seq) FROM onceward.message_log";
    let row = owner.query_one(names, &[]).await.expect("a row");
    assert_eq!(row.get::<_, &str>(0), "before,after");
}

#[tokio::test]
async fn invalid_messages_are_refused_with_a_reason_and_nothing_is_written() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let topic = "probe.events:tenant.acme.job";
    let good = json!({"name": "a"});
    let cases = [
        (NewMessage::new("probe.job.v1", topic, json!({"name": 7})), "/name"),
        (NewMessage::new("probe.job.v1", topic, json!({"name": "a", "extra": 1})), "extra"),
        (NewMessage::new("probe.job.v9", topic, good.clone()), "probe.job.v9"),
        (NewMessage::new("probe.job", topic, good.clone()), "version"),
        (NewMessage::new("probe.job.v1", "nowhere:tenant.acme.job", good.clone()), "nowhere"),
        (NewMessage::new("probe.job.v1", "no-colon", good.clone()), "exchange"),
        (NewMessage::new("probe.job.v1", "probe.events:tenant.globex.job", good.clone()), "globex"),
        (job("acme", "a").ordered_by("k".repeat(256)), "ordering key"),
        (job("acme", "a").ordered_by(""), "ordering key"),
        (job("acme", "a").once_per("k".repeat(256)), "idempotency key"),
        (job("acme", "a").once_per(""), "idempotency key"),
        (job("acme", "a\0b"), "NUL"),
    ];
    for (message, reason) in cases {
        let shown = format!("{message:?}");
        let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
        let error = outbox::send(&mut tx, message).await.expect_err(&shown);
        assert!(error.to_string().contains(reason), "{error} does not name {reason}");
        assert!(!error.is_transient(), "{error}");
        tx.commit().await.expect("the transaction itself is fine");
    }
    assert_eq!(count(&owner, LOGGED).await, 0);
}

#[tokio::test]
async fn a_transaction_without_a_tenant_or_a_publisher_cannot_publish() {
    let platform = platform().await;
    let mut tx = platform.db().begin(onceward::Scope::platform("probe")).await.expect("a connection");
    let error = outbox::send(&mut tx, job("acme", "a")).await.expect_err("no tenant");
    assert!(error.to_string().contains("tenant"), "{error}");
    let bare = onceward::Db::connect(platform.database().config()).expect("valid settings");
    let mut tx = bare.begin(scope("acme")).await.expect("a connection");
    let error = outbox::send(&mut tx, job("acme", "a")).await.expect_err("no publisher");
    assert!(matches!(error, PublishError::NoPublisher), "{error}");
}

#[tokio::test]
async fn an_unrouted_message_is_kept_and_not_delivered() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let message = NewMessage::new("probe.job.v1", "probe.events:nobody.listens", json!({"name": "a"}));
    publish(platform.db(), "acme", [message]).await;
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log WHERE lane_id < 0").await, 1);
    assert_eq!(count(&owner, "SELECT sum(depth)::bigint FROM onceward.queue_stats(10)").await, 0);
    let unrouted = unrouted(platform.db()).await.expect("the list");
    let [one] = &unrouted[..] else { panic!("one event type, not {unrouted:?}") };
    assert_eq!((&*one.exchange, &*one.event_type, one.messages), ("probe.events", "probe.job.v1", 1));
    assert_eq!(one.example_topic, "probe.events:nobody.listens");
}

#[tokio::test]
async fn the_outbox_shows_a_message_under_its_public_names() {
    let platform = platform().await;
    let mut message = job("acme", "a").ordered_by("o").once_per("k");
    message.aggregate = Some(("loan".into(), "7".into()));
    publish(platform.db(), "acme", [message]).await;
    let tx = platform.db().begin(scope("acme")).await.expect("a connection");
    let row = tx
        .query_one(
            "SELECT event_type, topic, ordering_key, idempotency_key, aggregate_type, aggregate_id, payload->>'name',
                    attempt_count, published_at IS NOT NULL FROM onceward.outbox_messages",
            &[],
        )
        .await
        .expect("one row");
    let texts: Vec<&str> = (0..7).map(|column| row.get(column)).collect();
    assert_eq!(texts, ["probe.job.v1", "probe.events:tenant.acme.job", "o", "k", "loan", "7", "a"]);
    assert_eq!((row.get::<_, i32>(7), row.get::<_, bool>(8)), (0, true));
    let other = platform.db().begin(scope("globex")).await.expect("a connection");
    let rows = other.query("SELECT FROM onceward.outbox_messages", &[]).await.expect("the query is allowed");
    assert!(rows.is_empty(), "another tenant sees the outbox");
}

#[tokio::test]
async fn a_message_names_the_person_or_the_service_that_acted() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let person = |user_id: Option<&str>, service: Option<&str>| {
        let actor = Actor { user_id: user_id.map(str::to_owned), service: service.map(str::to_owned) };
        Scope { actor, ..scope("acme") }
    };
    let scopes = [
        (person(None, Some("accrual")), json!({"service": "accrual"})),
        (person(Some("u"), None), json!({"userId": "u"})),
        (person(Some("u"), Some("api")), json!({"userId": "u", "service": "api"})),
        (scope("acme"), serde_json::Value::Null),
    ];
    for (scope, expected) in scopes {
        let mut tx = platform.db().begin(scope).await.expect("a connection");
        outbox::send(&mut tx, job("acme", "a")).await.expect("accepted");
        tx.commit().await.expect("it commits");
        let actor =
            "SELECT coalesce(headers->'actor', 'null')::jsonb FROM onceward.message_log ORDER BY seq DESC LIMIT 1";
        assert_eq!(owner.query_one(actor, &[]).await.expect("a row").get::<_, serde_json::Value>(0), expected);
    }
}

#[tokio::test]
async fn a_message_with_its_own_story_still_names_its_cause_and_parent_story() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let mut acting = scope("acme");
    acting.causation_id = Some("the cause".to_owned());
    let came_from = acting.correlation_id.to_string();
    let mut tx = platform.db().begin(acting).await.expect("a connection");
    outbox::send(&mut tx, job("acme", "own").correlated_by("payment:7")).await.expect("accepted");
    outbox::send(&mut tx, job("acme", "same").correlated_by(&came_from)).await.expect("accepted");
    let wrong = outbox::send(&mut tx, job("acme", "wrong").correlated_by("two\nlines")).await;
    assert!(matches!(wrong, Err(PublishError::Invalid(_))), "{wrong:?}");
    tx.commit().await.expect("it commits");
    let stories = "SELECT correlation_id, causation_id, headers->'extensions'->>'parentCorrelationId'
                   FROM onceward.outbox_messages ORDER BY id";
    let rows = owner.query(stories, &[]).await.expect("rows");
    let stories: Vec<(String, String, Option<String>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let cause = || "the cause".to_owned();
    assert_eq!(stories, [("payment:7".to_owned(), cause(), Some(came_from.clone())), (came_from, cause(), None)]);
}

#[tokio::test]
async fn a_message_published_under_another_scope_belongs_to_that_scopes_story() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let mut cause = scope("acme");
    cause.causation_id = Some("the cause".to_owned());
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    let before = tx.scope().correlation_id.clone();
    outbox::publish_as(&mut tx, &cause, &Job { name: "a".into(), number: 1 }).await.expect("accepted");
    assert_eq!(tx.scope().correlation_id, before, "the transaction keeps its own scope");
    tx.commit().await.expect("it commits");
    let row =
        owner.query_one("SELECT correlation_id, causation_id FROM onceward.outbox_messages", &[]).await.expect("a row");
    let story: (String, String) = (row.get(0), row.get(1));
    assert_eq!(story, (cause.correlation_id.to_string(), "the cause".to_owned()));
}

#[tokio::test]
async fn a_message_cannot_be_published_under_the_scope_of_another_tenant() {
    let platform = platform().await;
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    for foreign in [scope("globex"), Scope::platform("probe")] {
        let refused = outbox::publish_as(&mut tx, &foreign, &Job::default()).await;
        assert!(matches!(refused, Err(PublishError::Invalid(_))), "{refused:?}");
    }
}

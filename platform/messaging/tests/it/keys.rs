//! Idempotency keys: their scope, and how long they are remembered.

use crate::support::{bare_service, count, job, numbered, one_lane, publish, scope};
use onceward::{
    DbError, NewMessage, PublishError,
    message_log::{
        BusError,
        retention::{Retention, set_key_days, sweep},
    },
    outbox,
};
use onceward_testkit::{TestPlatform, eventually};
use std::collections::BTreeMap;

const LOGGED: &str = "SELECT count(*) FROM onceward.message_log";
const LASTING: &str = "SELECT count(*) FROM onceward.lasting_key";
/// Everything counts as old immediately.
const AT_ONCE: Retention = Retention { epoch_s: 0, keep_s: 0, inbox_s: 0, letters_s: 0 };

async fn platform() -> TestPlatform {
    TestPlatform::new(vec![bare_service(one_lane())]).await
}

async fn published(platform: &TestPlatform, messages: impl IntoIterator<Item = NewMessage>) -> Result<(), DbError> {
    let mut tx = platform.db().begin(scope("acme")).await.expect("a connection");
    for message in messages {
        match outbox::send(&mut tx, message).await {
            Err(PublishError::Bus(BusError::Db(error))) => return Err(error),
            sent => drop(sent.expect("it is accepted")),
        }
    }
    tx.commit().await
}

fn is_conflict(result: Result<(), DbError>) -> bool {
    let error = result.expect_err("the key stands for something else");
    assert!(error.to_string().contains("key of its own"), "it says what to do: {error}");
    assert!(!error.is_transient(), "a retry does not help");
    matches!(error, DbError::Conflict(_))
}

#[tokio::test]
async fn reusing_a_key_for_another_payload_is_an_error_and_writes_nothing() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    published(&platform, [job("acme", "a").once_per("k")]).await.expect("the first");
    published(&platform, [job("acme", "a").once_per("k")]).await.expect("the same again is known");
    assert!(is_conflict(published(&platform, [job("acme", "b").once_per("k")]).await), "alone");
    let others = [job("acme", "b").once_per("k"), job("acme", "c"), job("acme", "d").once_per("l")];
    let error = published(&platform, others).await.expect_err("one of several");
    assert!(matches!(error, DbError::Conflict(_)), "{error}");
    let both = [job("acme", "e").once_per("m"), job("acme", "f").once_per("m")];
    assert!(is_conflict(published(&platform, both).await), "in one transaction");
    assert_eq!(count(&owner, LOGGED).await, 1);
    let payloads = [numbered("acme", "a", 1).once_per("n"), numbered("acme", "a", 1).once_per("n")];
    published(&platform, payloads).await.expect("the same twice in one transaction");
    assert_eq!(count(&owner, LOGGED).await, 2);
}

#[tokio::test]
async fn sql_reports_a_key_reused_for_another_payload_with_advice() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let enqueue = |event_type: &str, payload: &str| {
        format!(
            "SELECT onceward.enqueue('acme', 'probe.events:tenant.acme.job', '{event_type}', '{payload}', 'k')::text"
        )
    };
    let first = owner.query_one(&enqueue("probe.job.v1", r#"{"name": "a", "n": 1}"#), &[]).await.expect("published");
    assert!(first.get::<_, Option<String>>(0).is_some());
    let again = owner.query_one(&enqueue("probe.job.v1", r#"{"n":1,"name":"a"}"#), &[]).await.expect("known");
    assert_eq!(again.get::<_, Option<String>>(0), None, "the order of names does not matter");
    for (event_type, payload) in [("probe.job.v1", r#"{"name": "b"}"#), ("probe.other.v1", r#"{"name": "a", "n": 1}"#)]
    {
        let error = owner.query_one(&enqueue(event_type, payload), &[]).await.expect_err("something else");
        let error = error.as_db_error().expect("the server's");
        assert_eq!(error.code().code(), "OW005");
        assert!(error.hint().is_some_and(|hint| hint.contains("a key of its own")), "{error:?}");
    }
    assert_eq!(count(&owner, LOGGED).await, 1);
}

/// Sweeps until the log contains nothing of the first partition.
async fn drop_partitions(platform: &TestPlatform) {
    let owner = platform.database().owner().await;
    eventually("the log is dropped", || async {
        sweep(platform.db(), AT_ONCE).await.ok()?;
        (count(&owner, "SELECT count(*) FROM onceward.message_key").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn keys_of_configured_event_types_outlive_their_partition() {
    let platform = TestPlatform::new(vec![bare_service(one_lane())]).await;
    let owner = platform.database().owner().await;
    let days = BTreeMap::from([("probe.job".to_owned(), 90)]);
    publish(
        platform.db(),
        "acme",
        [NewMessage::new("probe.job.v1", "probe.events:nobody", serde_json::json!({"name": "usual"}))
            .once_per("usual")],
    )
    .await;
    assert_eq!(count(&owner, LASTING).await, 0, "a type that asks for nothing costs nothing");
    assert!(set_key_days(platform.db(), &days).await.expect("it is set"));
    assert!(!set_key_days(platform.db(), &days).await.expect("it is known"), "twice the same is no change");

    let nobody = |name: &str| NewMessage::new("probe.job.v1", "probe.events:nobody", serde_json::json!({"name": name}));
    eventually("publishers know the new setting", || async {
        published(&platform, [nobody("a").once_per("k")]).await.ok()
    })
    .await;
    published(&platform, [nobody("b").once_per("l"), nobody("c")]).await.expect("several at once");
    assert_eq!(count(&owner, LASTING).await, 2);
    drop_partitions(&platform).await;

    publish(platform.db(), "acme", [nobody("a").once_per("k")]).await;
    publish(platform.db(), "acme", [nobody("b").once_per("l"), nobody("d").once_per("m")]).await;
    let sql = "SELECT count(onceward.enqueue('acme', 'probe.events:nobody', 'probe.job.v1', '{\"name\": \"a\"}', 'k'))";
    assert_eq!(count(&owner, sql).await, 0, "SQL knows it as well");
    let names = "SELECT string_agg(payload->>'name', ',' ORDER BY seq) FROM onceward.message_log";
    let row = owner.query_one(names, &[]).await.expect("a row");
    assert_eq!(row.get::<_, Option<&str>>(0), Some("d"), "only the new one is published");
    assert!(is_conflict(published(&platform, [nobody("other").once_per("k")]).await), "also long after");

    owner
        .batch_execute("UPDATE onceward.lasting_key SET keep_until = now() - interval '1 s'")
        .await
        .expect("time passes");
    drop_partitions(&platform).await;
    assert_eq!(count(&owner, LASTING).await, 0, "keys are deleted after their retention");
    published(&platform, [nobody("other").once_per("k")]).await.expect("the key is free again");
}

//! Encryption of secrets at rest.

use crate::support::{KEY, WebhooksFixture, settings};
use base64::{Engine, engine::general_purpose::STANDARD};
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use reqwest::Method;
use serde_json::{Value, json};

const NEW_KEY: &str = "another-key-of-the-tests-deployment";

/// Settings with `NEW_KEY` as the current key and `before` as the earlier ones.
fn new_key_after(before: &str) -> Settings {
    let secret_key = NEW_KEY.to_owned().try_into().expect("a key");
    Settings { secret_key, secret_keys_before: before.to_owned().try_into().expect("keys"), ..settings() }
}

/// Returns the tables of the whole database that contain any of `texts`; binary columns are compared as hexadecimal.
async fn tables_with(fixture: &WebhooksFixture, texts: &[String]) -> Vec<String> {
    let tables = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'";
    let mut found = Vec::new();
    for table in fixture.owner.query(tables, &[]).await.expect("tables") {
        let table: String = table.get(0);
        let rows = format!("SELECT EXISTS (SELECT FROM {table} t, unnest($1::text[]) x WHERE strpos(t::text, x) > 0)");
        if fixture.query(&rows, &[&texts]).await {
            found.push(table);
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn no_table_contains_a_secret_in_plain_text() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, first) = fixture.create_endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let second = fixture.post("acme", &path, json!({})).await.with_status(200)["secret"].as_str().unwrap().to_owned();
    fixture.publish_sales("acme", 0..1).await;
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await;
    for secret in [first, second] {
        let encoded = secret.trim_start_matches("whsec_");
        let bytes = STANDARD.decode(encoded).unwrap();
        let found = tables_with(&fixture, &[encoded.to_owned(), hex(encoded.as_bytes()), hex(&bytes)]).await;
        assert_eq!(found, Vec::<String>::new());
    }
    let known = [endpoint.clone(), hex(endpoint.as_bytes())];
    let found = tables_with(&fixture, &known).await;
    for table in ["webhooks.secret", "onceward_web.idempotency_key"] {
        assert!(found.iter().any(|found| found == table), "the search finds existing values: {found:?}");
    }
}

#[tokio::test]
async fn a_repeated_command_does_not_return_the_secret_again() {
    let fixture = WebhooksFixture::start(settings()).await;
    let body = json!({ "url": fixture.receiver.url("ok"), "event_types": ["*"] });
    let create = || fixture.call_with_key("once", "acme", Method::POST, "endpoints", Some(&body));
    let first = create().await.with_status(201);
    let again = create().await.with_status(201);
    assert_eq!(first["endpoint_id"], again["endpoint_id"]);
    assert!(first["secret"].is_string());
    assert_eq!(again.get("secret"), None::<&Value>);
}

#[tokio::test]
async fn a_secret_copied_to_another_endpoint_cannot_be_used() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (ours, _) = fixture.create_endpoint("acme", "ours").await;
    let (other, _) = fixture.create_endpoint("acme", "other").await;
    let (theirs, _) = fixture.create_endpoint("globex", "theirs").await;
    let (intact, secret) = fixture.create_endpoint("acme", "intact").await;
    fixture
        .execute(&format!(
            "UPDATE webhooks.secret s SET secret = o.secret FROM webhooks.secret o WHERE (s.endpoint_id, o.endpoint_id)
                IN (('{ours}', '{other}'), ('{other}', '{ours}'), ('{theirs}', '{ours}'))"
        ))
        .await;
    fixture.publish_sales("acme", 0..1).await;
    fixture.publish_sales("globex", 0..1).await;
    for (tenant, endpoint) in [("acme", &ours), ("acme", &other), ("globex", &theirs)] {
        let failed = &fixture.wait_for_deliveries(tenant, endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("belongs to another endpoint"), "{error}");
    }
    assert_eq!(fixture.receiver.wait_for("intact", 1).await[0].verify(&secret), Ok(()));
    fixture.wait_for_deliveries("acme", &intact, "delivered", 1).await;
    for path in ["ours", "other", "theirs"] {
        assert!(fixture.receiver.requests(path).is_empty(), "nothing is sent unsigned");
    }
}

#[tokio::test]
async fn endpoints_keep_their_secrets_when_the_key_is_replaced() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, secret) = fixture.create_endpoint("acme", "ok").await;
    let fixture = fixture.restart(new_key_after(KEY)).await;
    fixture.publish_sales("acme", 0..1).await;
    assert_eq!(fixture.receiver.wait_for("ok", 1).await[0].verify(&secret), Ok(()));
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let rotated = fixture.post("acme", &path, json!({ "overlap_s": 3600 })).await.with_status(200);
    let keys: i64 = fixture.query("SELECT count(DISTINCT key_id) FROM webhooks.secret", &[]).await;
    assert_eq!(keys, 2, "the new secret is encrypted with the new key");
    fixture.publish_sales("acme", 1..2).await;
    let request = &fixture.receiver.wait_for("ok", 2).await[1];
    let new = rotated["secret"].as_str().unwrap();
    assert_eq!((request.verify(&secret), request.verify(new)), (Ok(()), Ok(())));
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 2).await;

    let fixture = fixture.restart(new_key_after("")).await;
    fixture.publish_sales("acme", 2..3).await;
    let request = &fixture.receiver.wait_for("ok", 3).await[2];
    assert_eq!(request.verify(new), Ok(()), "without the old key, the old secret is not used");
    assert!(request.verify(&secret).is_err());
}

#[tokio::test]
async fn a_sweep_re_encrypts_secrets_so_that_the_old_key_can_be_removed() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (_, ours) = fixture.create_endpoint("acme", "ours").await;
    let (_, theirs) = fixture.create_endpoint("globex", "theirs").await;
    let (damaged, _) = fixture.create_endpoint_with("globex", "damaged", json!({ "event_types": ["nothing"] })).await;
    fixture
        .execute(&format!("UPDATE webhooks.secret SET secret = secret || '\\x00' WHERE endpoint_id = '{damaged}'"))
        .await;
    let fixture = fixture.restart(new_key_after(KEY)).await;
    fixture.publish_sweep_tick().await;
    eventually("two of three secrets are encrypted with the new key", || async {
        let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM webhooks.secret GROUP BY key_id) k";
        (fixture.query::<i64>("SELECT count(DISTINCT key_id) FROM webhooks.secret", &[]).await == 2
            && fixture.query::<i64>(most, &[]).await == 2)
            .then_some(())
    })
    .await;
    let fixture = fixture.restart(new_key_after("")).await;
    for (tenant, secret) in [("acme", ours), ("globex", theirs)] {
        fixture.publish_sales(tenant, 0..1).await;
        let path = if tenant == "acme" { "ours" } else { "theirs" };
        assert_eq!(fixture.receiver.wait_for(path, 1).await[0].verify(&secret), Ok(()));
    }
}

#[tokio::test]
async fn attempts_fail_while_the_key_is_missing_and_succeed_when_it_is_back() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, secret) = fixture.create_endpoint("acme", "ok").await;
    let fixture = fixture.restart(new_key_after("")).await;
    fixture.publish_sales("acme", 0..1).await;
    let failed = fixture.wait_for_deliveries("acme", &endpoint, "failed", 1).await.remove(0);
    let error = failed["log"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("webhooks.secret_keys_before"), "{error}");
    assert!(fixture.receiver.requests("ok").is_empty());
    let fixture = fixture.restart(new_key_after(KEY)).await;
    let delivery = failed["delivery_id"].as_str().unwrap();
    fixture.post_empty("acme", &format!("deliveries/{delivery}/resend")).await.with_status(202);
    assert_eq!(fixture.receiver.wait_for("ok", 1).await[0].verify(&secret), Ok(()));
}

#[tokio::test]
async fn no_endpoint_can_be_created_without_a_key() {
    let fixture = WebhooksFixture::start(Settings { secret_key: Settings::default().secret_key, ..settings() }).await;
    let body = json!({ "url": fixture.receiver.url("ok"), "event_types": ["*"] });
    fixture.post("acme", "endpoints", body).await.with_status(500);
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM webhooks.endpoint", &[]).await, 0);
}

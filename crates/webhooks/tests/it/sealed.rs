//! Secrets at rest.

use crate::support::{KEY, World, settings};
use base64::{Engine, engine::general_purpose::STANDARD};
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use reqwest::Method;
use serde_json::{Value, json};

const NEW_KEY: &str = "another-key-of-the-tests-deployment";

/// With `NEW_KEY` in force, after `before`.
fn new_key_after(before: &str) -> Settings {
    let secret_key = NEW_KEY.to_owned().try_into().expect("a key");
    Settings { secret_key, secret_keys_before: before.to_owned().try_into().expect("keys"), ..settings() }
}

/// The tables of the whole database that hold any of `texts`; what is binary is looked at as hexadecimal.
async fn tables_with(world: &World, texts: &[String]) -> Vec<String> {
    let tables = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind = 'r' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'";
    let mut found = Vec::new();
    for table in world.owner.query(tables, &[]).await.expect("tables") {
        let table: String = table.get(0);
        let rows = format!("SELECT EXISTS (SELECT FROM {table} t, unnest($1::text[]) x WHERE strpos(t::text, x) > 0)");
        if world.ask(&rows, &[&texts]).await {
            found.push(table);
        }
    }
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn no_table_holds_a_secret_that_was_told() {
    let world = World::open(settings()).await;
    let (endpoint, first) = world.endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let second = world.post("acme", &path, json!({})).await.with(200)["secret"].as_str().unwrap().to_owned();
    world.sell("acme", 0..1).await;
    world.settled("acme", &endpoint, "delivered", 1).await;
    for secret in [first, second] {
        let encoded = secret.trim_start_matches("whsec_");
        let bytes = STANDARD.decode(encoded).unwrap();
        let found = tables_with(&world, &[encoded.to_owned(), hex(encoded.as_bytes()), hex(&bytes)]).await;
        assert_eq!(found, Vec::<String>::new());
    }
    let known = [endpoint.clone(), hex(endpoint.as_bytes())];
    let found = tables_with(&world, &known).await;
    for table in ["webhooks.secret", "onceward_web.idempotency_key"] {
        assert!(found.iter().any(|found| found == table), "the search sees what is there: {found:?}");
    }
}

#[tokio::test]
async fn a_repeated_command_is_not_told_the_secret_again() {
    let world = World::open(settings()).await;
    let body = json!({ "url": world.receiver.url("ok"), "event_types": ["*"] });
    let make = || world.call_by("once", "acme", Method::POST, "endpoints", Some(&body));
    let first = make().await.with(201);
    let again = make().await.with(201);
    assert_eq!(first["endpoint_id"], again["endpoint_id"]);
    assert!(first["secret"].is_string());
    assert_eq!(again.get("secret"), None::<&Value>);
}

#[tokio::test]
async fn a_secret_that_was_moved_to_another_endpoint_signs_nothing() {
    let world = World::open(settings()).await;
    let (ours, _) = world.endpoint("acme", "ours").await;
    let (other, _) = world.endpoint("acme", "other").await;
    let (theirs, _) = world.endpoint("globex", "theirs").await;
    let (sound, secret) = world.endpoint("acme", "sound").await;
    world
        .run(&format!(
            "UPDATE webhooks.secret s SET secret = o.secret FROM webhooks.secret o WHERE (s.endpoint_id, o.endpoint_id)
                IN (('{ours}', '{other}'), ('{other}', '{ours}'), ('{theirs}', '{ours}'))"
        ))
        .await;
    world.sell("acme", 0..1).await;
    world.sell("globex", 0..1).await;
    for (tenant, endpoint) in [("acme", &ours), ("acme", &other), ("globex", &theirs)] {
        let failed = &world.settled(tenant, endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("that of another endpoint"), "{error}");
    }
    assert_eq!(world.receiver.wait("sound", 1).await[0].verify(&secret), Ok(()));
    world.settled("acme", &sound, "delivered", 1).await;
    for path in ["ours", "other", "theirs"] {
        assert!(world.receiver.got(path).is_empty(), "nothing goes out unsigned");
    }
}

#[tokio::test]
async fn the_key_is_replaced_and_endpoints_keep_their_secrets() {
    let world = World::open(settings()).await;
    let (endpoint, secret) = world.endpoint("acme", "ok").await;
    let world = world.restarted(new_key_after(KEY)).await;
    world.sell("acme", 0..1).await;
    assert_eq!(world.receiver.wait("ok", 1).await[0].verify(&secret), Ok(()));
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let rotated = world.post("acme", &path, json!({ "overlap_s": 3600 })).await.with(200);
    let keys: i64 = world.ask("SELECT count(DISTINCT key_id) FROM webhooks.secret", &[]).await;
    assert_eq!(keys, 2, "the new secret has the new key");
    world.sell("acme", 1..2).await;
    let got = &world.receiver.wait("ok", 2).await[1];
    let new = rotated["secret"].as_str().unwrap();
    assert_eq!((got.verify(&secret), got.verify(new)), (Ok(()), Ok(())));
    world.settled("acme", &endpoint, "delivered", 2).await;

    let world = world.restarted(new_key_after("")).await;
    world.sell("acme", 2..3).await;
    let got = &world.receiver.wait("ok", 3).await[2];
    assert_eq!(got.verify(new), Ok(()), "without the old key the old secret is left out");
    assert!(got.verify(&secret).is_err());
}

#[tokio::test]
async fn a_sweep_puts_secrets_under_the_new_key_so_that_the_old_one_can_go() {
    let world = World::open(settings()).await;
    let (_, ours) = world.endpoint("acme", "ours").await;
    let (_, theirs) = world.endpoint("globex", "theirs").await;
    let (spoilt, _) = world.endpoint_with("globex", "spoilt", json!({ "event_types": ["nothing"] })).await;
    world.run(&format!("UPDATE webhooks.secret SET secret = secret || '\\x00' WHERE endpoint_id = '{spoilt}'")).await;
    let world = world.restarted(new_key_after(KEY)).await;
    world.sweep().await;
    eventually("two of three have the new key", || async {
        let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM webhooks.secret GROUP BY key_id) k";
        (world.ask::<i64>("SELECT count(DISTINCT key_id) FROM webhooks.secret", &[]).await == 2
            && world.ask::<i64>(most, &[]).await == 2)
            .then_some(())
    })
    .await;
    let world = world.restarted(new_key_after("")).await;
    for (tenant, secret) in [("acme", ours), ("globex", theirs)] {
        world.sell(tenant, 0..1).await;
        let path = if tenant == "acme" { "ours" } else { "theirs" };
        assert_eq!(world.receiver.wait(path, 1).await[0].verify(&secret), Ok(()));
    }
}

#[tokio::test]
async fn a_key_that_is_missing_fails_the_attempt_until_it_is_back() {
    let world = World::open(settings()).await;
    let (endpoint, secret) = world.endpoint("acme", "ok").await;
    let world = world.restarted(new_key_after("")).await;
    world.sell("acme", 0..1).await;
    let failed = world.settled("acme", &endpoint, "failed", 1).await.remove(0);
    let error = failed["log"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("webhooks.secret_keys_before"), "{error}");
    assert!(world.receiver.got("ok").is_empty());
    let world = world.restarted(new_key_after(KEY)).await;
    let delivery = failed["delivery_id"].as_str().unwrap();
    world.tell("acme", &format!("deliveries/{delivery}/resend")).await.with(202);
    assert_eq!(world.receiver.wait("ok", 1).await[0].verify(&secret), Ok(()));
}

#[tokio::test]
async fn without_any_key_no_endpoint_is_made() {
    let world = World::open(Settings { secret_key: Settings::default().secret_key, ..settings() }).await;
    let body = json!({ "url": world.receiver.url("ok"), "event_types": ["*"] });
    world.post("acme", "endpoints", body).await.with(500);
    assert_eq!(world.ask::<i64>("SELECT count(*) FROM webhooks.endpoint", &[]).await, 0);
}

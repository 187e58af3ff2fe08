//! Secrets and their rotation.

use crate::support::{World, settings};
use onceward_webhooks::signature::NotVerified;
use serde_json::json;

#[tokio::test]
async fn both_secrets_are_good_until_the_old_one_expires() {
    let world = World::open(settings()).await;
    let (endpoint, old) = world.endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let rotated = world.post("acme", &path, json!({ "overlap_s": 3600 })).await.with(200);
    let new = rotated["secret"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    assert_eq!(rotated["secrets"].as_array().map(Vec::len), Some(2));
    world.sell("acme", 0..1).await;
    let got = &world.receiver.wait("ok", 1).await[0];
    assert_eq!((got.verify(&old), got.verify(&new)), (Ok(()), Ok(())));

    world.run("UPDATE webhooks.secret SET expires_at = now() WHERE expires_at IS NOT NULL").await;
    world.sell("acme", 1..2).await;
    let got = &world.receiver.wait("ok", 2).await[1];
    assert_eq!((got.verify(&old), got.verify(&new)), (Err(NotVerified::NoMatch), Ok(())));
    assert_eq!(world.audited("acme", "webhook_secret_rotated").await, 1);
}

#[tokio::test]
async fn an_old_secret_can_be_dropped_at_once() {
    let world = World::open(settings()).await;
    let (endpoint, old) = world.endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    world.post("acme", &path, json!({ "overlap_s": 0 })).await.with(200);
    world.sell("acme", 0..1).await;
    let got = &world.receiver.wait("ok", 1).await[0];
    assert_eq!(got.verify(&old), Err(NotVerified::NoMatch));
    assert_eq!(got.signature.split(' ').count(), 1);
}

#[tokio::test]
async fn many_rotations_leave_few_secrets_in_force_and_a_secret_is_shown_once() {
    let world = World::open(settings()).await;
    let (endpoint, first) = world.endpoint("acme", "ok").await;
    for _ in 0..8 {
        world.post("acme", &format!("endpoints/{endpoint}/rotate-secret"), json!({})).await.with(200);
    }
    let shown = world.get("acme", &format!("endpoints/{endpoint}")).await.with(200);
    assert_eq!(shown["secrets"].as_array().map(Vec::len), Some(5));
    assert!(!shown.to_string().contains("whsec_"), "{shown}");
    let audited: String = world.ask("SELECT string_agg(document, ' ') FROM audit.entry", &[]).await;
    assert!(!audited.contains("whsec_") && !audited.contains(&first[6..]));
}

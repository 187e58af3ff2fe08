//! What receivers get.

use crate::support::{World, settings};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_receiver_gets_a_signed_message_in_the_standards_form() {
    let world = World::open(settings()).await;
    let (endpoint, secret) = world.endpoint("acme", "ok").await;
    let ids = world.sell("acme", 7..8).await;
    let got = &world.receiver.wait("ok", 1).await[0];
    assert_eq!(got.id, ids[0]);
    assert_eq!(got.verify(&secret), Ok(()));
    let body = got.json();
    assert_eq!(body["type"], "shop.sold.v1");
    assert_eq!(body["data"], json!({ "number": 7 }));
    assert_eq!((&body["eventId"], &body["tenantId"]), (&json!(ids[0]), &json!("acme")));
    assert!(body["timestamp"].as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok()));
    let delivery = &world.settled("acme", &endpoint, "delivered", 1).await[0];
    let shown = world.get("acme", &format!("deliveries/{}", delivery["delivery_id"].as_str().unwrap())).await.with(200);
    assert_eq!(shown["body"].as_str().map(str::as_bytes), Some(got.body.as_ref()));
    let log = &shown["log"][0];
    assert_eq!((&log["status"], &log["snippet"], &log["error"]), (&json!(200), &json!("fine"), &json!(null)));
}

#[tokio::test]
async fn filters_choose_by_type_with_and_without_version() {
    let world = World::open(settings()).await;
    for (path, filters) in [
        ("exact", json!(["shop.sold.v1"])),
        ("name", json!(["shop.sold"])),
        ("prefix", json!(["other.*", "shop.*"])),
        ("foreign", json!(["shop.sold.v2", "shop", "shopping.*", "sold.*"])),
    ] {
        world.endpoint_with("acme", path, json!({ "event_types": filters })).await;
    }
    world.endpoint("acme", "all").await;
    let ids: BTreeSet<String> = world.sell("acme", 0..3).await.into_iter().collect();
    for path in ["exact", "name", "prefix", "all"] {
        world.receiver.wait(path, 3).await;
        assert_eq!(world.receiver.ids(path), ids, "{path}");
    }
    assert!(world.receiver.got("foreign").is_empty());
}

#[tokio::test]
async fn an_event_without_a_contract_here_is_passed_on() {
    let world = World::open(settings()).await;
    world.endpoint("acme", "ok").await;
    world
        .run(
            "SELECT onceward.enqueue('acme', 'shop.events:tenant.acme.shop.burned', 'shop.burned.v3', '{\"down\": true}')",
        )
        .await;
    let body = world.receiver.wait("ok", 1).await[0].json();
    assert_eq!((&body["type"], &body["data"]), (&json!("shop.burned.v3"), &json!({ "down": true })));
}

#[tokio::test]
async fn two_tenants_never_meet() {
    let world = World::open(settings()).await;
    let (ours, _) = world.endpoint("ours", "ours").await;
    let (theirs, secret) = world.endpoint("theirs", "theirs").await;
    let sold = [world.sell("ours", 0..5).await, world.sell("theirs", 5..10).await];
    for (path, ids) in ["ours", "theirs"].into_iter().zip(sold) {
        let got = world.receiver.wait(path, 5).await;
        assert!(got.iter().all(|got| got.json()["tenantId"] == path));
        assert_eq!(world.receiver.ids(path), ids.into_iter().collect());
    }
    let delivery = world.settled("theirs", &theirs, "delivered", 5).await[0]["delivery_id"].clone();
    let delivery = delivery.as_str().unwrap();
    for path in
        [format!("endpoints/{theirs}"), format!("endpoints/{theirs}/deliveries"), format!("deliveries/{delivery}")]
    {
        world.get("ours", &path).await.with(404);
    }
    for path in ["test", "enable"].map(|verb| format!("endpoints/{theirs}/{verb}")) {
        world.tell("ours", &path).await.with(404);
    }
    world.tell("ours", &format!("deliveries/{delivery}/resend")).await.with(404);
    world.post("ours", &format!("endpoints/{theirs}/rotate-secret"), json!({})).await.with(404);
    assert_eq!(world.receiver.got("ours")[0].verify(&secret), Err(onceward_webhooks::signature::NotVerified::NoMatch));
    let listed = world.get("ours", "endpoints").await.with(200);
    assert_eq!(listed["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["endpoints"][0]["endpoint_id"], ours);
}

#[tokio::test]
async fn an_answer_without_end_is_read_in_part_and_counts() {
    let world = World::open(settings()).await;
    let (endpoint, _) = world.endpoint("acme", "endless").await;
    world.sell("acme", 0..1).await;
    let delivery = &world.settled("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivery["log"][0]["snippet"], "x".repeat(onceward_webhooks::client::SNIPPET_BYTES));
}

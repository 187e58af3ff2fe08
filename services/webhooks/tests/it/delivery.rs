//! The requests that receivers get.

use crate::support::{WebhooksFixture, settings};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_receiver_gets_a_signed_message_as_standard_webhooks_define_it() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, secret) = fixture.create_endpoint("acme", "ok").await;
    let ids = fixture.publish_sales("acme", 7..8).await;
    let request = &fixture.receiver.wait_for("ok", 1).await[0];
    assert_eq!(request.id, ids[0]);
    assert_eq!(request.verify(&secret), Ok(()));
    let body = request.json();
    assert_eq!(body["type"], "shop.sold.v1");
    assert_eq!(body["data"], json!({ "number": 7 }));
    assert_eq!((&body["eventId"], &body["tenantId"]), (&json!(ids[0]), &json!("acme")));
    assert!(body["timestamp"].as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok()));
    let delivery = &fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0];
    let shown = fixture
        .get("acme", &format!("deliveries/{}", delivery["delivery_id"].as_str().unwrap()))
        .await
        .with_status(200);
    assert_eq!(shown["body"].as_str().map(str::as_bytes), Some(request.body.as_ref()));
    let log = &shown["log"][0];
    assert_eq!((&log["status"], &log["snippet"], &log["error"]), (&json!(200), &json!("fine"), &json!(null)));
}

#[tokio::test]
async fn filters_select_event_types_with_and_without_version() {
    let fixture = WebhooksFixture::start(settings()).await;
    for (path, filters) in [
        ("exact", json!(["shop.sold.v1"])),
        ("name", json!(["shop.sold"])),
        ("prefix", json!(["other.*", "shop.*"])),
        ("foreign", json!(["shop.sold.v2", "shop", "shopping.*", "sold.*"])),
    ] {
        fixture.create_endpoint_with("acme", path, json!({ "event_types": filters })).await;
    }
    fixture.create_endpoint("acme", "all").await;
    let ids: BTreeSet<String> = fixture.publish_sales("acme", 0..3).await.into_iter().collect();
    for path in ["exact", "name", "prefix", "all"] {
        fixture.receiver.wait_for(path, 3).await;
        assert_eq!(fixture.receiver.ids(path), ids, "{path}");
    }
    assert!(fixture.receiver.requests("foreign").is_empty());
}

#[tokio::test]
async fn an_event_without_a_schema_is_delivered() {
    let fixture = WebhooksFixture::start(settings()).await;
    fixture.create_endpoint("acme", "ok").await;
    fixture
        .execute(
            "SELECT onceward.enqueue('acme', 'shop.events:tenant.acme.shop.burned', 'shop.burned.v3', '{\"down\": true}')",
        )
        .await;
    let body = fixture.receiver.wait_for("ok", 1).await[0].json();
    assert_eq!((&body["type"], &body["data"]), (&json!("shop.burned.v3"), &json!({ "down": true })));
}

#[tokio::test]
async fn tenants_see_neither_events_nor_endpoints_of_each_other() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (ours, _) = fixture.create_endpoint("ours", "ours").await;
    let (theirs, secret) = fixture.create_endpoint("theirs", "theirs").await;
    let published = [fixture.publish_sales("ours", 0..5).await, fixture.publish_sales("theirs", 5..10).await];
    for (path, ids) in ["ours", "theirs"].into_iter().zip(published) {
        let requests = fixture.receiver.wait_for(path, 5).await;
        assert!(requests.iter().all(|request| request.json()["tenantId"] == path));
        assert_eq!(fixture.receiver.ids(path), ids.into_iter().collect());
    }
    let delivery = fixture.wait_for_deliveries("theirs", &theirs, "delivered", 5).await[0]["delivery_id"].clone();
    let delivery = delivery.as_str().unwrap();
    for path in
        [format!("endpoints/{theirs}"), format!("endpoints/{theirs}/deliveries"), format!("deliveries/{delivery}")]
    {
        fixture.get("ours", &path).await.with_status(404);
    }
    for path in ["test", "enable"].map(|verb| format!("endpoints/{theirs}/{verb}")) {
        fixture.post_empty("ours", &path).await.with_status(404);
    }
    fixture.post_empty("ours", &format!("deliveries/{delivery}/resend")).await.with_status(404);
    fixture.post("ours", &format!("endpoints/{theirs}/rotate-secret"), json!({})).await.with_status(404);
    assert_eq!(
        fixture.receiver.requests("ours")[0].verify(&secret),
        Err(onceward_webhooks::signature::VerificationError::NoMatch)
    );
    let listed = fixture.get("ours", "endpoints").await.with_status(200);
    assert_eq!(listed["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["endpoints"][0]["endpoint_id"], ours);
}

#[tokio::test]
async fn an_endless_response_body_is_cut_off_and_the_delivery_succeeds() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "endless").await;
    fixture.publish_sales("acme", 0..1).await;
    let delivery = &fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivery["log"][0]["snippet"], "x".repeat(onceward_webhooks::client::SNIPPET_BYTES));
}

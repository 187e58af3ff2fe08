//! The event types that endpoints may subscribe to, and the error that a first attempt on one machine meets.

use crate::support::{SHOP_EVENTS, WebhooksFixture, settings, shop_service};
use onceward_testkit::TestPlatform;
use onceward_webhooks::{EventSource, Settings, service};
use serde_json::json;

#[tokio::test]
async fn a_filter_that_matches_no_event_type_is_rejected_with_a_suggestion() {
    const LISTED: EventSource = SHOP_EVENTS.types(&["shop.sold.v1", "shop.returned.v1"]);
    let platform = TestPlatform::new(vec![shop_service(), service(settings(), vec![LISTED])]).await;
    let fixture = WebhooksFixture::on_platform(platform).await;
    let listed = fixture.get("acme", "event-types").await.with_status(200);
    let types = ["shop.returned.v1", "shop.sold.v1", "webhook.endpoint_disabled.v1", "webhook.test.v1"];
    assert_eq!(listed["event_types"], json!(types));
    let body = |filter: &str| json!({ "url": fixture.receiver.url("ok"), "event_types": ["*", filter] });
    let refused = fixture.post("acme", "endpoints", body("shop.sodl")).await.with_status(422);
    let error = refused["errors"][0]["message"].as_str().unwrap();
    assert_eq!(refused["errors"][0]["path"], "/event_types");
    assert!(error.contains("did you mean \"shop.sold\"?") && error.contains("/api/webhooks/event-types"), "{error}");
    let created = fixture.post("acme", "endpoints", body("shop.*")).await.with_status(201);
    let path = format!("endpoints/{}", created["endpoint_id"].as_str().unwrap());
    let change = json!({ "event_types": ["shp.*"] });
    fixture.call("acme", reqwest::Method::PATCH, &path, Some(&change)).await.with_status(422);
    assert_eq!(
        fixture.get("acme", &path).await.with_status(200)["event_types"],
        json!(["*", "shop.*"]),
        "nothing was changed"
    );
}

#[tokio::test]
async fn the_error_for_plain_http_names_every_setting_for_a_local_receiver() {
    let fixture = WebhooksFixture::start(Settings { allow_http: false, ..settings() }).await;
    let body = json!({ "url": fixture.receiver.url("ok"), "event_types": ["*"] });
    let refused = fixture.post("acme", "endpoints", body).await.with_status(422);
    let error = refused["errors"][0]["message"].as_str().unwrap();
    for needed in
        ["webhooks.allow_http", "webhooks.allowed_networks", "ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.1/32"]
    {
        assert!(error.contains(needed), "{needed}: {error}");
    }
}

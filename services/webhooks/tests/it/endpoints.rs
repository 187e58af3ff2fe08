//! Endpoints over the API.

use crate::support::{WebhooksFixture, settings};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn an_endpoint_is_created_changed_and_deleted() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (id, secret) =
        fixture.create_endpoint_with("acme", "ok", json!({ "description": "ours", "max_per_second": 5 })).await;
    assert!(secret.starts_with("whsec_"));
    let shown = fixture.get("acme", &format!("endpoints/{id}")).await.with_status(200);
    assert_eq!((&shown["state"], &shown["max_per_second"]), (&json!("active"), &json!(5)));
    assert!(shown.get("secret").is_none());

    let changed = fixture.patch("acme", &id, json!({ "max_per_second": null, "event_types": ["shop.*"] })).await;
    assert_eq!((&changed["max_per_second"], &changed["event_types"]), (&Value::Null, &json!(["shop.*"])));
    assert_eq!(changed["description"], "ours", "omitted fields stay as they are");

    fixture.call("acme", Method::DELETE, &format!("endpoints/{id}"), None).await.with_status(200);
    fixture.get("acme", &format!("endpoints/{id}")).await.with_status(404);
    let (other, _) = fixture.create_endpoint("acme", "other").await;
    fixture.publish_sales("acme", 0..1).await;
    fixture.wait_for_deliveries("acme", &other, "delivered", 1).await;
    assert!(fixture.receiver.requests("ok").is_empty());
    for (action, count) in [("created", 2), ("changed", 1), ("deleted", 1)] {
        assert_eq!(fixture.count_audit_entries("acme", &format!("webhook_endpoint_{action}")).await, count, "{action}");
    }
}

#[tokio::test]
async fn bodies_that_violate_their_schema_are_rejected() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (id, _) = fixture.create_endpoint("acme", "ok").await;
    let url = fixture.receiver.url("ok");
    for body in [
        json!({ "url": url }),
        json!({ "url": url, "event_types": [] }),
        json!({ "url": url, "event_types": ["a*"] }),
        json!({ "url": url, "event_types": ["*.sold"] }),
        json!({ "url": url, "event_types": ["*"], "max_per_second": 0 }),
        json!({ "url": url, "event_types": ["*"], "secret": "mine" }),
    ] {
        assert_eq!(fixture.post("acme", "endpoints", body.clone()).await.status, 422, "{body}");
    }
    let path = format!("endpoints/{id}");
    for body in [json!({}), json!({ "paused": "yes" }), json!({ "disabled_at": null })] {
        assert_eq!(fixture.call("acme", Method::PATCH, &path, Some(&body)).await.status, 422, "{body}");
    }
    assert_eq!(fixture.post("acme", &format!("{path}/rotate-secret"), json!({ "overlap_s": -1 })).await.status, 422);
}

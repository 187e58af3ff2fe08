//! Endpoints over the API.

use crate::support::{World, settings};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn an_endpoint_is_made_changed_and_taken_away() {
    let world = World::open(settings()).await;
    let (id, secret) = world.endpoint_with("acme", "ok", json!({ "description": "ours", "max_per_second": 5 })).await;
    assert!(secret.starts_with("whsec_"));
    let shown = world.get("acme", &format!("endpoints/{id}")).await.with(200);
    assert_eq!((&shown["state"], &shown["max_per_second"]), (&json!("active"), &json!(5)));
    assert!(shown.get("secret").is_none());

    let changed = world.patch("acme", &id, json!({ "max_per_second": null, "event_types": ["shop.*"] })).await;
    assert_eq!((&changed["max_per_second"], &changed["event_types"]), (&Value::Null, &json!(["shop.*"])));
    assert_eq!(changed["description"], "ours", "what is left out stays");

    world.call("acme", Method::DELETE, &format!("endpoints/{id}"), None).await.with(200);
    world.get("acme", &format!("endpoints/{id}")).await.with(404);
    let (other, _) = world.endpoint("acme", "other").await;
    world.sell("acme", 0..1).await;
    world.settled("acme", &other, "delivered", 1).await;
    assert!(world.receiver.got("ok").is_empty());
    for (what, count) in [("created", 2), ("changed", 1), ("deleted", 1)] {
        assert_eq!(world.audited("acme", &format!("webhook_endpoint_{what}")).await, count, "{what}");
    }
}

#[tokio::test]
async fn bodies_that_break_their_schema_are_refused() {
    let world = World::open(settings()).await;
    let (id, _) = world.endpoint("acme", "ok").await;
    let url = world.receiver.url("ok");
    for body in [
        json!({ "url": url }),
        json!({ "url": url, "event_types": [] }),
        json!({ "url": url, "event_types": ["a*"] }),
        json!({ "url": url, "event_types": ["*.sold"] }),
        json!({ "url": url, "event_types": ["*"], "max_per_second": 0 }),
        json!({ "url": url, "event_types": ["*"], "secret": "mine" }),
    ] {
        assert_eq!(world.post("acme", "endpoints", body.clone()).await.0, 422, "{body}");
    }
    let path = format!("endpoints/{id}");
    for body in [json!({}), json!({ "paused": "yes" }), json!({ "disabled_at": null })] {
        assert_eq!(world.call("acme", Method::PATCH, &path, Some(&body)).await.0, 422, "{body}");
    }
    assert_eq!(world.post("acme", &format!("{path}/rotate-secret"), json!({ "overlap_s": -1 })).await.0, 422);
}

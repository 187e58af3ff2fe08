//! Endpoints that reject deliveries.

use crate::support::{WebhooksFixture, settings};
use jiff::{SignedDuration, Timestamp};
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use serde_json::{Value, json};

#[tokio::test]
async fn a_delivery_fails_after_all_scheduled_attempts_and_can_be_resent() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "error").await;
    let ids = fixture.publish_sales("acme", 0..1).await;
    let failed = &fixture.wait_for_deliveries("acme", &endpoint, "failed", 1).await[0];
    assert_eq!(failed["attempts"], 3);
    let requests = fixture.receiver.requests("error");
    assert_eq!(requests.iter().map(|request| &request.id).collect::<Vec<_>>(), [&ids[0]; 3], "the same id each time");
    let statuses: Vec<&Value> = failed["log"].as_array().unwrap().iter().map(|attempt| &attempt["status"]).collect();
    assert_eq!(statuses, [500; 3]);
    assert_eq!(failed["log"][0]["snippet"], "the receiver is broken");

    fixture.patch("acme", &endpoint, json!({ "url": fixture.receiver.url("repaired") })).await;
    let delivery = failed["delivery_id"].as_str().unwrap();
    fixture.post_empty("acme", &format!("deliveries/{delivery}/resend")).await.with_status(202);
    let resent = &fixture.receiver.wait_for("repaired", 1).await[0];
    assert_eq!((&resent.id, &resent.body), (&ids[0], &requests[0].body));
    let delivered = &fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivered["attempts"], 4);
    fixture.wait_for_endpoint_state("acme", &endpoint, "active").await;
    assert_eq!(fixture.count_audit_entries("acme", "webhook_resent").await, 1);
}

#[tokio::test]
async fn an_endpoint_that_recovers_receives_the_failed_delivery() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, secret) = fixture.create_endpoint("acme", "flaky").await;
    fixture.publish_sales("acme", 0..1).await;
    let delivered = &fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivered["attempts"], 3);
    let requests = fixture.receiver.requests("flaky");
    assert!(requests.iter().all(|request| request.verify(&secret).is_ok()), "each attempt is signed with its own time");
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// Returns the endpoint's only delivery after its first attempt.
async fn after_first_attempt(fixture: &WebhooksFixture, endpoint: &str) -> Value {
    eventually("the first attempt is recorded", || async {
        let mut all = fixture.deliveries("acme", endpoint).await;
        all.pop().filter(|delivery| delivery["attempts"] == 1)
    })
    .await
}

#[tokio::test]
async fn the_default_delays_and_retry_after_are_respected() {
    let default_schedule = Settings { retry_schedule: Settings::default().retry_schedule, ..settings() };
    let fixture = WebhooksFixture::start(default_schedule).await;
    let (broken, _) = fixture.create_endpoint("acme", "error").await;
    let (busy, _) = fixture.create_endpoint("acme", "later").await;
    fixture.publish_sales("acme", 0..1).await;
    for (endpoint, delay_s) in [(broken, 5), (busy, 3600)] {
        let delivery = after_first_attempt(&fixture, &endpoint).await;
        assert_eq!(delivery["state"], "pending");
        let delay = time(&delivery["due_at"]).duration_since(time(&delivery["log"][0]["started_at"]));
        assert!(delay >= SignedDuration::from_secs(delay_s), "{delay}");
    }
}

#[tokio::test]
async fn the_delay_that_retry_after_requests_is_bounded() {
    let bounded = Settings { retry_after_max_s: 0, ..settings() };
    let fixture = WebhooksFixture::start(bounded).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "later").await;
    fixture.publish_sales("acme", 0..1).await;
    assert_eq!(fixture.wait_for_deliveries("acme", &endpoint, "failed", 1).await[0]["attempts"], 3);
}

#[tokio::test]
async fn an_endpoint_that_responds_410_is_disabled_at_once_and_an_event_is_published() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (gone, _) = fixture.create_endpoint_with("acme", "gone", json!({ "event_types": ["shop.*"] })).await;
    fixture.create_endpoint_with("acme", "watch", json!({ "event_types": ["webhook.*"] })).await;
    fixture.publish_sales("acme", 0..1).await;
    let disabled = fixture.wait_for_endpoint_state("acme", &gone, "disabled").await;
    assert!(disabled["disabled_reason"].as_str().is_some_and(|reason| reason.contains("410")), "{disabled}");
    assert_eq!(fixture.wait_for_deliveries("acme", &gone, "failed", 1).await[0]["attempts"], 1);
    let event = fixture.receiver.wait_for("watch", 1).await[0].json();
    assert_eq!((&event["type"], &event["data"]["endpoint_id"]), (&json!("webhook.endpoint_disabled.v1"), &json!(gone)));
    assert_eq!(fixture.count_audit_entries("acme", "webhook_endpoint_disabled").await, 1);
    let refused = fixture.post_empty("acme", &format!("endpoints/{gone}/test")).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("webhook-endpoint-refuses")));

    // An event is for the endpoints that are enabled at its fan-out. Once another endpoint has received it, the fan-out
    // is done.
    fixture.create_endpoint_with("acme", "other", json!({ "event_types": ["shop.*"] })).await;
    fixture.publish_sales("acme", 1..2).await;
    fixture.receiver.wait_for("other", 1).await;
    fixture.patch("acme", &gone, json!({ "url": fixture.receiver.url("back") })).await;
    fixture.post_empty("acme", &format!("endpoints/{gone}/enable")).await.with_status(200);
    let later = fixture.publish_sales("acme", 2..3).await;
    let requests = fixture.receiver.wait_for("back", 1).await;
    assert_eq!(requests[0].id, later[0]);
    assert_eq!(fixture.count_audit_entries("acme", "webhook_endpoint_enabled").await, 1);
}

#[tokio::test]
async fn an_endpoint_that_fails_for_too_long_is_disabled_and_keeps_its_backlog() {
    let fixture = WebhooksFixture::start(Settings { retry_schedule: "0s 1h".parse().unwrap(), ..settings() }).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "error").await;
    fixture.publish_sales("acme", 0..1).await;
    fixture.wait_for_endpoint_state("acme", &endpoint, "failing").await;
    after_first_attempt(&fixture, &endpoint).await;
    fixture.execute("UPDATE webhooks.endpoint SET failing_since = now() - interval '121 hours'").await;
    fixture.publish_sales("acme", 1..2).await;
    let disabled = fixture.wait_for_endpoint_state("acme", &endpoint, "disabled").await;
    assert!(disabled["disabled_reason"].as_str().is_some_and(|reason| reason.contains("120 hours")), "{disabled}");
    assert_eq!(fixture.wait_for_deliveries("acme", &endpoint, "pending", 2).await.len(), 2);
}

//! Operations of endpoint owners on deliveries.

use crate::support::{WebhooksFixture, settings};
use onceward_testkit::eventually;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_paused_endpoint_keeps_its_backlog_and_receives_it_when_it_is_resumed() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (paused, _) = fixture.create_endpoint_with("acme", "later-on", json!({ "paused": true })).await;
    let (other, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.patch("acme", &paused, json!({ "url": fixture.receiver.url("resumed") })).await;
    let published: BTreeSet<String> = fixture.publish_sales("acme", 0..8).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &other, "delivered", 8).await;
    assert_eq!(fixture.wait_for_deliveries("acme", &paused, "pending", 8).await.len(), 8);
    assert!(fixture.receiver.requests("resumed").is_empty());
    fixture.patch("acme", &paused, json!({ "paused": false })).await;
    fixture.wait_for_deliveries("acme", &paused, "delivered", 8).await;
    assert_eq!(fixture.receiver.ids("resumed"), published);
}

#[tokio::test]
async fn a_resumed_endpoint_receives_its_backlog_in_the_order_of_due_times() {
    let fixture = WebhooksFixture::start(onceward_webhooks::Settings { in_flight_per_endpoint: 1, ..settings() }).await;
    let (endpoint, _) = fixture.create_endpoint_with("acme", "ok", json!({ "paused": true })).await;
    let mut published = Vec::new();
    for number in 0..6 {
        published.extend(fixture.publish_sales("acme", number..number + 1).await);
        fixture.wait_for_deliveries("acme", &endpoint, "pending", published.len()).await;
    }
    fixture.patch("acme", &endpoint, json!({ "paused": false })).await;
    let requests = fixture.receiver.wait_for("ok", 6).await;
    assert_eq!(requests.into_iter().map(|request| request.id).collect::<Vec<_>>(), published);
}

#[tokio::test]
async fn a_time_range_is_replayed_with_the_original_ids() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, _) = fixture.create_endpoint_with("acme", "ok", json!({ "event_types": ["shop.*"] })).await;
    fixture.publish_sales("acme", 0..3).await;
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 3).await;
    fixture.execute("UPDATE webhooks.event SET recorded_at = recorded_at - interval '2 hours'").await;
    let later: BTreeSet<String> = fixture.publish_sales("acme", 3..7).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 7).await;

    let now = jiff::Timestamp::now();
    let hour = |hours: i64| (now + jiff::SignedDuration::from_hours(hours)).to_string();
    let path = format!("endpoints/{endpoint}/replay");
    let replayed = fixture.post("acme", &path, json!({ "from": hour(-1), "to": hour(1) })).await.with_status(202);
    assert_eq!((&replayed["count"], &replayed["next_from"]), (&json!(4), &json!(null)));
    let requests = fixture.receiver.wait_for("ok", 11).await;
    assert_eq!(requests[7..].iter().map(|request| request.id.clone()).collect::<BTreeSet<_>>(), later);
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 7).await;

    let none = json!({ "from": hour(-3), "to": hour(1), "event_types": ["shop.returned"] });
    assert_eq!(fixture.post("acme", &path, none).await.with_status(202)["count"], 0);
    let refused = fixture.post("acme", &path, json!({ "from": hour(1), "to": hour(-1) })).await;
    assert_eq!(refused.status, 422);
    assert_eq!(fixture.count_audit_entries("acme", "webhook_replayed").await, 2);
}

#[tokio::test]
async fn a_new_endpoint_can_replay_events_from_before_its_creation() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (first, _) = fixture.create_endpoint("acme", "first").await;
    let published: BTreeSet<String> = fixture.publish_sales("acme", 0..5).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &first, "delivered", 5).await;
    fixture.post_empty("acme", &format!("endpoints/{first}/test")).await.with_status(202);
    fixture.wait_for_deliveries("acme", &first, "delivered", 6).await;
    let (second, _) = fixture.create_endpoint("acme", "second").await;
    let range = json!({ "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z" });
    assert_eq!(fixture.post("acme", &format!("endpoints/{second}/replay"), range).await.with_status(202)["count"], 5);
    fixture.wait_for_deliveries("acme", &second, "delivered", 5).await;
    assert_eq!(fixture.receiver.ids("second"), published, "the test message is not replayed");
    assert_eq!(fixture.receiver.requests("first").len(), 6);
}

#[tokio::test]
async fn a_test_message_is_delivered_like_any_other_regardless_of_filters() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, secret) = fixture.create_endpoint_with("acme", "ok", json!({ "event_types": ["nothing"] })).await;
    let accepted = fixture.post_empty("acme", &format!("endpoints/{endpoint}/test")).await.with_status(202);
    let request = &fixture.receiver.wait_for("ok", 1).await[0];
    assert_eq!(request.verify(&secret), Ok(()));
    assert_eq!(request.json()["type"], "webhook.test.v1");
    let delivery = &fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivery["delivery_id"], accepted["delivery_id"]);
    fixture.patch("acme", &endpoint, json!({ "paused": true })).await;
    fixture.post_empty("acme", &format!("endpoints/{endpoint}/test")).await.with_status(409);
}

#[tokio::test]
async fn the_delivery_log_is_paged_and_filtered_by_state_and_time() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.publish_sales("acme", 0..7).await;
    let all = fixture.wait_for_deliveries("acme", &endpoint, "delivered", 7).await;
    let mut paged = Vec::new();
    let mut cursor = String::new();
    for _ in 0..4 {
        let page =
            fixture.get("acme", &format!("endpoints/{endpoint}/deliveries?limit=2{cursor}")).await.with_status(200);
        paged.extend(page["deliveries"].as_array().cloned().unwrap());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, all);
    for (query, count) in [
        ("state=delivered", 7),
        ("state=failed", 0),
        ("from=2100-01-01T00:00:00Z", 0),
        ("to=2020-01-01T00:00:00Z", 0),
        ("from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", 7),
    ] {
        let page = fixture.get("acme", &format!("endpoints/{endpoint}/deliveries?{query}")).await.with_status(200);
        assert_eq!(page["deliveries"].as_array().map(Vec::len), Some(count), "{query}");
    }
    fixture.get("acme", &format!("endpoints/{endpoint}/deliveries?state=lost")).await.with_status(400);
}

#[tokio::test]
async fn metrics_report_pending_deliveries_and_disabled_endpoints() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (paused, _) =
        fixture.create_endpoint_with("acme", "ok", json!({ "paused": true, "event_types": ["shop.*"] })).await;
    let (gone, _) = fixture.create_endpoint("acme", "gone").await;
    fixture.publish_sales("acme", 0..1).await;
    fixture.wait_for_deliveries("acme", &paused, "pending", 1).await;
    fixture.wait_for_endpoint_state("acme", &gone, "disabled").await;
    eventually("the metrics are reported", || async {
        let text = fixture.metrics().await;
        let wanted = [
            "webhooks_deliveries{state=\"failed\"} 1",
            "webhooks_endpoints{state=\"paused\"} 1",
            "webhooks_endpoints{state=\"disabled\"} 1",
            "webhooks_attempts_total{result=\"refused\"}",
            "webhooks_deliveries_total{result=\"failed\"}",
        ];
        wanted.iter().all(|line| text.contains(line)).then_some(())
    })
    .await;
}

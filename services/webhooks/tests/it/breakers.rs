//! An endpoint that is down is left alone, and its deliveries wait without losing attempts.

use crate::support::{WebhooksFixture, settings};
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const EVENTS: u32 = 60;
/// Requests until a breaker opens: five failures, and those that are in flight with the fifth.
const MAX_UNTIL_OPEN: usize = 5 + 4;

/// Breakers that stay open for longer than a test.
fn long_pauses() -> Settings {
    let retry_schedule = "0s 1h".parse().expect("a schedule");
    Settings { breaker_pause_ms: 3_600_000, breaker_max_pause_ms: 3_600_000, retry_schedule, ..settings() }
}

/// Waits until a delivery of the endpoint was returned by the breaker: it waits, and no attempt was counted.
async fn wait_for_rejection(fixture: &WebhooksFixture, endpoint: &str) {
    let returned = "SELECT count(*) FROM webhooks.delivery
        WHERE endpoint_id = $1::text::uuid AND tried = 0 AND lease > 0 AND leased_until IS NULL AND due_at > now()";
    eventually("the breaker rejects a delivery", || async {
        (fixture.query::<i64>(returned, &[&endpoint]).await > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_is_down_is_left_alone_and_its_backlog_is_not_claimed_again_and_again() {
    let fixture = WebhooksFixture::start(long_pauses()).await;
    let (broken, _) = fixture.create_endpoint("acme", "error").await;
    let (healthy, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.publish_sales("acme", 0..EVENTS).await;
    wait_for_rejection(&fixture, &broken).await;
    fixture.publish_sales("acme", EVENTS..2 * EVENTS).await;
    fixture.wait_for_deliveries("acme", &healthy, "delivered", 2 * EVENTS as usize).await;

    let requests = fixture.receiver.requests("error").len();
    assert!((5..=MAX_UNTIL_OPEN).contains(&requests), "{requests} requests");
    let deliveries = fixture.wait_for_deliveries("acme", &broken, "pending", 2 * EVENTS as usize).await;
    let attempts: u64 = deliveries.iter().filter_map(|delivery| delivery["attempts"].as_u64()).sum();
    assert_eq!(attempts, requests as u64, "only requests count as attempts");
    let claims = "SELECT sum(lease) FROM webhooks.delivery WHERE endpoint_id = $1::text::uuid";
    let claims: i64 = fixture.query(claims, &[&broken]).await;
    assert!(claims as usize <= requests + MAX_UNTIL_OPEN, "{claims} claims for {requests} requests");
    fixture.wait_for_endpoint_state("acme", &broken, "failing").await;
    eventually("the breaker is in the metrics, without its endpoint", || async {
        let text = fixture.metrics().await;
        let is_open = text.contains("onceward_breaker_state{destination=\"webhooks\",state=\"open\"} 1");
        let has_time = text.contains("onceward_breaker_open_seconds_total{destination=\"webhooks\"}");
        assert!(!text.contains(&broken), "an endpoint is no label");
        (is_open && has_time).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_returns_receives_everything_that_waited() {
    let retry_schedule = ["20ms"; 200].join(" ").parse().expect("a schedule");
    let quick = Settings { breaker_pause_ms: 50, breaker_max_pause_ms: 200, retry_schedule, ..settings() };
    let fixture = WebhooksFixture::start(quick).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "switched").await;
    let published: BTreeSet<String> = fixture.publish_sales("acme", 0..EVENTS).await.into_iter().collect();
    wait_for_rejection(&fixture, &endpoint).await;
    // Probes go on, one after the other.
    let before = fixture.receiver.requests("switched").len();
    fixture.receiver.wait_for("switched", before + 3).await;
    fixture.receiver.switch_on();
    let delivered = fixture.wait_for_deliveries("acme", &endpoint, "delivered", EVENTS as usize).await;
    assert_eq!(fixture.receiver.ids("switched"), published);
    let attempts: u64 = delivered.iter().filter_map(|delivery| delivery["attempts"].as_u64()).sum();
    assert_eq!(attempts, fixture.receiver.requests("switched").len() as u64, "every request is in the log");
    fixture.wait_for_endpoint_state("acme", &endpoint, "active").await;
}

#[tokio::test]
async fn an_endpoint_with_another_url_does_not_wait_for_the_breaker_of_the_old_one() {
    let fixture = WebhooksFixture::start(long_pauses()).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "error").await;
    fixture.publish_sales("acme", 0..20).await;
    wait_for_rejection(&fixture, &endpoint).await;
    let is_untried = |delivery: &&Value| delivery["attempts"] == 0;
    let untried = fixture.deliveries("acme", &endpoint).await.iter().filter(is_untried).count();
    fixture.patch("acme", &endpoint, json!({ "url": fixture.receiver.url("repaired") })).await;
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", untried).await;
    assert_eq!(fixture.receiver.ids("repaired").len(), untried);
}

#[tokio::test]
async fn the_breaker_of_one_endpoint_does_not_stop_another_of_the_same_tenant() {
    let fixture = WebhooksFixture::start(long_pauses()).await;
    let (broken, _) = fixture.create_endpoint("acme", "error").await;
    fixture.publish_sales("acme", 0..20).await;
    wait_for_rejection(&fixture, &broken).await;
    let (other, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.publish_sales("acme", 20..40).await;
    fixture.wait_for_deliveries("acme", &other, "delivered", 20).await;
}

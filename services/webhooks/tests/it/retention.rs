//! Old rows are deleted, and nothing else.

use crate::support::{WebhooksFixture, settings};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn old_settled_deliveries_are_deleted_and_a_backlog_stays() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (delivered, _) = fixture.create_endpoint("acme", "ok").await;
    let (paused, _) = fixture.create_endpoint_with("acme", "waits", json!({ "paused": true })).await;
    let (deleted, _) = fixture.create_endpoint_with("acme", "deleted", json!({ "paused": true })).await;
    fixture.publish_sales("acme", 0..4).await;
    fixture.wait_for_deliveries("acme", &delivered, "delivered", 4).await;
    fixture.patch("acme", &paused, json!({ "event_types": ["nothing"] })).await;
    fixture.execute("UPDATE webhooks.event SET recorded_at = recorded_at - interval '31 days'").await;
    fixture.execute("UPDATE webhooks.delivery SET settled_at = settled_at - interval '31 days'").await;
    fixture.publish_sales("acme", 4..6).await;
    fixture.wait_for_deliveries("acme", &delivered, "delivered", 6).await;
    fixture.call("acme", Method::DELETE, &format!("endpoints/{deleted}"), None).await.with_status(200);
    fixture.publish_sweep_tick().await;
    eventually("the deleted endpoint is gone", || async {
        (fixture.query::<i64>("SELECT count(*) FROM webhooks.endpoint", &[]).await == 2).then_some(())
    })
    .await;
    assert_eq!(fixture.deliveries("acme", &delivered).await.len(), 2, "recent deliveries stay");
    assert_eq!(fixture.deliveries("acme", &paused).await.len(), 4, "pending deliveries stay");
    assert_eq!(
        fixture.query::<i64>("SELECT count(*) FROM webhooks.event", &[]).await,
        6,
        "pending deliveries still need the events"
    );
    fixture
        .execute(
            "UPDATE webhooks.endpoint SET disabled_at = now() - interval '31 days', disabled_reason = 'x' WHERE paused",
        )
        .await;
    fixture
        .execute("UPDATE webhooks.delivery SET created_at = now() - interval '31 days' WHERE state = 'pending'")
        .await;
    fixture.publish_sweep_tick().await;
    eventually("the old events are gone", || async {
        (fixture.query::<i64>("SELECT count(*) FROM webhooks.event", &[]).await == 2).then_some(())
    })
    .await;
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM webhooks.attempt", &[]).await, 2);
}

//! What is old is cleared away, and nothing else.

use crate::support::{World, settings};
use onceward_testkit::eventually;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn settled_deliveries_and_their_events_go_and_a_backlog_stays() {
    let world = World::open(settings()).await;
    let (delivered, _) = world.endpoint("acme", "ok").await;
    let (paused, _) = world.endpoint_with("acme", "waits", json!({ "paused": true })).await;
    let (deleted, _) = world.endpoint_with("acme", "deleted", json!({ "paused": true })).await;
    world.sell("acme", 0..4).await;
    world.settled("acme", &delivered, "delivered", 4).await;
    world.patch("acme", &paused, json!({ "event_types": ["nothing"] })).await;
    world.run("UPDATE webhooks.event SET recorded_at = recorded_at - interval '31 days'").await;
    world.run("UPDATE webhooks.delivery SET settled_at = settled_at - interval '31 days'").await;
    world.sell("acme", 4..6).await;
    world.settled("acme", &delivered, "delivered", 6).await;
    world.call("acme", Method::DELETE, &format!("endpoints/{deleted}"), None).await.with(200);
    world.sweep().await;
    eventually("the deleted endpoint is gone", || async {
        (world.ask::<i64>("SELECT count(*) FROM webhooks.endpoint", &[]).await == 2).then_some(())
    })
    .await;
    assert_eq!(world.deliveries("acme", &delivered).await.len(), 2, "those that are not old");
    assert_eq!(world.deliveries("acme", &paused).await.len(), 4, "those that wait");
    assert_eq!(world.ask::<i64>("SELECT count(*) FROM webhooks.event", &[]).await, 6, "somebody still waits for them");
    world
        .run(
            "UPDATE webhooks.endpoint SET disabled_at = now() - interval '31 days', disabled_reason = 'x' WHERE paused",
        )
        .await;
    world.run("UPDATE webhooks.delivery SET created_at = now() - interval '31 days' WHERE state = 'pending'").await;
    world.sweep().await;
    eventually("the old events are gone", || async {
        (world.ask::<i64>("SELECT count(*) FROM webhooks.event", &[]).await == 2).then_some(())
    })
    .await;
    assert_eq!(world.ask::<i64>("SELECT count(*) FROM webhooks.attempt", &[]).await, 2);
}

//! Endpoints that do not want what they are sent.

use crate::support::{World, settings};
use jiff::{SignedDuration, Timestamp};
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use serde_json::{Value, json};

#[tokio::test]
async fn a_broken_endpoint_is_tried_by_the_schedule_and_then_given_up_until_somebody_resends() {
    let world = World::open(settings()).await;
    let (endpoint, _) = world.endpoint("acme", "error").await;
    let ids = world.sell("acme", 0..1).await;
    let failed = &world.settled("acme", &endpoint, "failed", 1).await[0];
    assert_eq!(failed["attempts"], 3);
    let got = world.receiver.got("error");
    assert_eq!(got.iter().map(|got| &got.id).collect::<Vec<_>>(), [&ids[0]; 3], "the same id each time");
    let statuses: Vec<&Value> = failed["log"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, [500; 3]);
    assert_eq!(failed["log"][0]["snippet"], "the receiver is broken");

    world.patch("acme", &endpoint, json!({ "url": world.receiver.url("mended") })).await;
    let delivery = failed["delivery_id"].as_str().unwrap();
    world.tell("acme", &format!("deliveries/{delivery}/resend")).await.with(202);
    let resent = &world.receiver.wait("mended", 1).await[0];
    assert_eq!((&resent.id, &resent.body), (&ids[0], &got[0].body));
    let delivered = &world.settled("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivered["attempts"], 4);
    world.endpoint_is("acme", &endpoint, "active").await;
    assert_eq!(world.audited("acme", "webhook_resent").await, 1);
}

#[tokio::test]
async fn an_endpoint_that_recovers_gets_what_it_refused() {
    let world = World::open(settings()).await;
    let (endpoint, secret) = world.endpoint("acme", "flaky").await;
    world.sell("acme", 0..1).await;
    let delivered = &world.settled("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivered["attempts"], 3);
    let got = world.receiver.got("flaky");
    assert!(got.iter().all(|got| got.verify(&secret).is_ok()), "each attempt is signed for its own time");
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// The only delivery of the endpoint, once it was tried for the first time.
async fn tried_once(world: &World, endpoint: &str) -> Value {
    eventually("it is tried", || async {
        let mut all = world.deliveries("acme", endpoint).await;
        all.pop().filter(|one| one["attempts"] == 1)
    })
    .await
}

#[tokio::test]
async fn the_usual_waits_and_retry_after_are_kept() {
    let usual = Settings { retry_schedule: Settings::default().retry_schedule, ..settings() };
    let world = World::open(usual).await;
    let (breaks, _) = world.endpoint("acme", "error").await;
    let (asks, _) = world.endpoint("acme", "later").await;
    world.sell("acme", 0..1).await;
    for (endpoint, wait_s) in [(breaks, 5), (asks, 3600)] {
        let delivery = tried_once(&world, &endpoint).await;
        assert_eq!(delivery["state"], "pending");
        let wait = time(&delivery["due_at"]).duration_since(time(&delivery["log"][0]["started_at"]));
        assert!(wait >= SignedDuration::from_secs(wait_s), "{wait}");
    }
}

#[tokio::test]
async fn what_retry_after_asks_for_has_a_bound() {
    let bounded = Settings { retry_after_max_s: 0, ..settings() };
    let world = World::open(bounded).await;
    let (endpoint, _) = world.endpoint("acme", "later").await;
    world.sell("acme", 0..1).await;
    assert_eq!(world.settled("acme", &endpoint, "failed", 1).await[0]["attempts"], 3);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_disabled_at_once_and_others_hear_of_it() {
    let world = World::open(settings()).await;
    let (gone, _) = world.endpoint_with("acme", "gone", json!({ "event_types": ["shop.*"] })).await;
    world.endpoint_with("acme", "watch", json!({ "event_types": ["webhook.*"] })).await;
    world.sell("acme", 0..1).await;
    let disabled = world.endpoint_is("acme", &gone, "disabled").await;
    assert!(disabled["disabled_reason"].as_str().is_some_and(|reason| reason.contains("410")), "{disabled}");
    assert_eq!(world.settled("acme", &gone, "failed", 1).await[0]["attempts"], 1);
    let told = world.receiver.wait("watch", 1).await[0].json();
    assert_eq!((&told["type"], &told["data"]["endpointId"]), (&json!("webhook.endpoint_disabled.v1"), &json!(gone)));
    assert_eq!(world.audited("acme", "webhook_endpoint_disabled").await, 1);
    let refused = world.tell("acme", &format!("endpoints/{gone}/test")).await;
    assert_eq!((refused.0, &refused.1["code"]), (409, &json!("webhook-endpoint-refuses")));

    // What happens meanwhile is not for it, unless somebody replays it.
    world.sell("acme", 1..2).await;
    world.patch("acme", &gone, json!({ "url": world.receiver.url("back") })).await;
    world.tell("acme", &format!("endpoints/{gone}/enable")).await.with(200);
    let later = world.sell("acme", 2..3).await;
    let got = world.receiver.wait("back", 1).await;
    assert_eq!(got[0].id, later[0]);
    assert_eq!(world.audited("acme", "webhook_endpoint_enabled").await, 1);
}

#[tokio::test]
async fn an_endpoint_that_fails_for_too_long_is_disabled_and_keeps_its_backlog() {
    let world = World::open(Settings { retry_schedule: "0s 1h".parse().unwrap(), ..settings() }).await;
    let (endpoint, _) = world.endpoint("acme", "error").await;
    world.sell("acme", 0..1).await;
    world.endpoint_is("acme", &endpoint, "failing").await;
    tried_once(&world, &endpoint).await;
    world.run("UPDATE webhooks.endpoint SET failing_since = now() - interval '121 hours'").await;
    world.sell("acme", 1..2).await;
    let disabled = world.endpoint_is("acme", &endpoint, "disabled").await;
    assert!(disabled["disabled_reason"].as_str().is_some_and(|reason| reason.contains("120 hours")), "{disabled}");
    assert_eq!(world.settled("acme", &endpoint, "pending", 2).await.len(), 2);
}

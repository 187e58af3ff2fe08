//! What owners of endpoints do about deliveries.

use crate::support::{World, settings};
use onceward_testkit::eventually;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_paused_endpoint_keeps_its_backlog_and_gets_it_when_it_is_resumed() {
    let world = World::open(settings()).await;
    let (paused, _) = world.endpoint_with("acme", "later-on", json!({ "paused": true })).await;
    let (other, _) = world.endpoint("acme", "ok").await;
    world.patch("acme", &paused, json!({ "url": world.receiver.url("resumed") })).await;
    let sold: BTreeSet<String> = world.sell("acme", 0..8).await.into_iter().collect();
    world.settled("acme", &other, "delivered", 8).await;
    assert_eq!(world.settled("acme", &paused, "pending", 8).await.len(), 8);
    assert!(world.receiver.got("resumed").is_empty());
    world.patch("acme", &paused, json!({ "paused": false })).await;
    world.settled("acme", &paused, "delivered", 8).await;
    assert_eq!(world.receiver.ids("resumed"), sold);
}

#[tokio::test]
async fn a_resumed_endpoint_gets_its_backlog_in_the_order_in_which_it_was_due() {
    let world = World::open(onceward_webhooks::Settings { in_flight_per_endpoint: 1, ..settings() }).await;
    let (endpoint, _) = world.endpoint_with("acme", "ok", json!({ "paused": true })).await;
    let mut sold = Vec::new();
    for number in 0..6 {
        sold.extend(world.sell("acme", number..number + 1).await);
        world.settled("acme", &endpoint, "pending", sold.len()).await;
    }
    world.patch("acme", &endpoint, json!({ "paused": false })).await;
    let got = world.receiver.wait("ok", 6).await;
    assert_eq!(got.into_iter().map(|got| got.id).collect::<Vec<_>>(), sold);
}

#[tokio::test]
async fn a_time_range_is_replayed_with_the_ids_that_it_had() {
    let world = World::open(settings()).await;
    let (endpoint, _) = world.endpoint_with("acme", "ok", json!({ "event_types": ["shop.*"] })).await;
    world.sell("acme", 0..3).await;
    world.settled("acme", &endpoint, "delivered", 3).await;
    world.run("UPDATE webhooks.event SET recorded_at = recorded_at - interval '2 hours'").await;
    let later: BTreeSet<String> = world.sell("acme", 3..7).await.into_iter().collect();
    world.settled("acme", &endpoint, "delivered", 7).await;

    let now = jiff::Timestamp::now();
    let hour = |hours: i64| (now + jiff::SignedDuration::from_hours(hours)).to_string();
    let path = format!("endpoints/{endpoint}/replay");
    let replayed = world.post("acme", &path, json!({ "from": hour(-1), "to": hour(1) })).await.with(202);
    assert_eq!((&replayed["count"], &replayed["next_from"]), (&json!(4), &json!(null)));
    let got = world.receiver.wait("ok", 11).await;
    assert_eq!(got[7..].iter().map(|got| got.id.clone()).collect::<BTreeSet<_>>(), later);
    world.settled("acme", &endpoint, "delivered", 7).await;

    let none = json!({ "from": hour(-3), "to": hour(1), "event_types": ["shop.returned"] });
    assert_eq!(world.post("acme", &path, none).await.with(202)["count"], 0);
    let refused = world.post("acme", &path, json!({ "from": hour(1), "to": hour(-1) })).await;
    assert_eq!(refused.0, 422);
    assert_eq!(world.audited("acme", "webhook_replayed").await, 2);
}

#[tokio::test]
async fn an_endpoint_that_came_later_can_be_told_what_happened_before() {
    let world = World::open(settings()).await;
    let (first, _) = world.endpoint("acme", "first").await;
    let sold: BTreeSet<String> = world.sell("acme", 0..5).await.into_iter().collect();
    world.settled("acme", &first, "delivered", 5).await;
    world.tell("acme", &format!("endpoints/{first}/test")).await.with(202);
    world.settled("acme", &first, "delivered", 6).await;
    let (second, _) = world.endpoint("acme", "second").await;
    let range = json!({ "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z" });
    assert_eq!(world.post("acme", &format!("endpoints/{second}/replay"), range).await.with(202)["count"], 5);
    world.settled("acme", &second, "delivered", 5).await;
    assert_eq!(world.receiver.ids("second"), sold, "and not that somebody was tested");
    assert_eq!(world.receiver.got("first").len(), 6);
}

#[tokio::test]
async fn a_test_goes_the_way_of_all_messages_whatever_the_filters() {
    let world = World::open(settings()).await;
    let (endpoint, secret) = world.endpoint_with("acme", "ok", json!({ "event_types": ["nothing"] })).await;
    let accepted = world.tell("acme", &format!("endpoints/{endpoint}/test")).await.with(202);
    let got = &world.receiver.wait("ok", 1).await[0];
    assert_eq!(got.verify(&secret), Ok(()));
    assert_eq!(got.json()["type"], "webhook.test.v1");
    let delivery = &world.settled("acme", &endpoint, "delivered", 1).await[0];
    assert_eq!(delivery["delivery_id"], accepted["delivery_id"]);
    world.patch("acme", &endpoint, json!({ "paused": true })).await;
    world.tell("acme", &format!("endpoints/{endpoint}/test")).await.with(409);
}

#[tokio::test]
async fn the_log_is_read_by_pages_states_and_times() {
    let world = World::open(settings()).await;
    let (endpoint, _) = world.endpoint("acme", "ok").await;
    world.sell("acme", 0..7).await;
    let all = world.settled("acme", &endpoint, "delivered", 7).await;
    let mut paged = Vec::new();
    let mut cursor = String::new();
    for _ in 0..4 {
        let page = world.get("acme", &format!("endpoints/{endpoint}/deliveries?limit=2{cursor}")).await.with(200);
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
        let page = world.get("acme", &format!("endpoints/{endpoint}/deliveries?{query}")).await.with(200);
        assert_eq!(page["deliveries"].as_array().map(Vec::len), Some(count), "{query}");
    }
    world.get("acme", &format!("endpoints/{endpoint}/deliveries?state=lost")).await.with(400);
}

#[tokio::test]
async fn figures_tell_what_waits_and_who_is_disabled() {
    let world = World::open(settings()).await;
    let (paused, _) = world.endpoint_with("acme", "ok", json!({ "paused": true, "event_types": ["shop.*"] })).await;
    let (gone, _) = world.endpoint("acme", "gone").await;
    world.sell("acme", 0..1).await;
    world.settled("acme", &paused, "pending", 1).await;
    world.endpoint_is("acme", &gone, "disabled").await;
    eventually("the figures are there", || async {
        let text = world.metrics().await;
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

//! Endpoints do not get in each other's way.

use crate::support::{World, settings};
use onceward_webhooks::Settings;
use serde_json::json;
use std::collections::BTreeSet;

const EVENTS: u32 = 60;

#[tokio::test]
async fn a_healthy_endpoint_gets_everything_while_others_hang_break_and_redirect() {
    let patient = Settings { retry_schedule: "0s 1h".parse().unwrap(), ..settings() };
    let world = World::open(patient).await;
    let (hangs, _) = world.endpoint("acme", "hang").await;
    let (breaks, _) = world.endpoint("acme", "error").await;
    let (redirects, _) = world.endpoint("acme", "redirect").await;
    let (well, _) = world.endpoint("acme", "ok").await;
    // The one that hangs has all that it may have before anything else is sold.
    world.sell("acme", 0..10).await;
    world.receiver.wait("hang", 4).await;
    let first = world.receiver.ids("hang");
    let ids: BTreeSet<String> = world.sell("acme", 10..EVENTS).await.into_iter().collect();
    world.settled("acme", &well, "delivered", EVENTS as usize).await;
    assert!(world.receiver.ids("ok").is_superset(&ids));
    assert_eq!(world.receiver.got("ok").len(), EVENTS as usize, "each came once");

    assert_eq!(world.receiver.ids("hang"), first, "it still holds its first requests, and got no more");
    assert_eq!(world.settled("acme", &hangs, "pending", EVENTS as usize).await.len(), EVENTS as usize);
    world.endpoint_is("acme", &breaks, "failing").await;
    world.endpoint_is("acme", &redirects, "failing").await;
    world.receiver.wait("redirect", 1).await;
    assert!(world.receiver.got("trap").is_empty(), "a redirect is never followed");
    let log =
        &world.deliveries("acme", &redirects).await.into_iter().find(|one| one["attempts"] == 1).unwrap()["log"][0];
    assert_eq!(log["status"], 302);
    assert!(log["error"].as_str().is_some_and(|error| error.contains("redirects are not followed")), "{log}");
}

#[tokio::test]
async fn however_many_endpoints_hang_they_wait_for_each_other_only() {
    let few = Settings { in_flight: 8, retry_schedule: "0s 1h".parse().unwrap(), ..settings() };
    let world = World::open(few).await;
    for n in 0..10 {
        world.endpoint("acme", &format!("hang-{n}")).await;
    }
    world.run("UPDATE webhooks.endpoint SET failing_since = now()").await;
    let (well, _) = world.endpoint("acme", "ok").await;
    world.sell("acme", 0..20).await;
    world.settled("acme", &well, "delivered", 20).await;
    let hanging: usize = (0..10).map(|n| world.receiver.got(&format!("hang-{n}")).len()).sum();
    assert!(hanging <= 2, "{hanging} requests hang, of the two that may");
}

#[tokio::test]
async fn an_endpoint_with_a_rate_gets_no_more_than_that_at_once() {
    let world = World::idle(settings(), None).await;
    let (endpoint, _) = world.endpoint_with("acme", "ok", json!({ "paused": true, "max_per_second": 2 })).await;
    let (mut instance, stop) = world.platform.another_instance();
    instance.run_consumers();
    world.sell("acme", 0..6).await;
    world.settled("acme", &endpoint, "pending", 6).await;
    stop.cancel();
    assert!(instance.finished().await);
    world.run("UPDATE webhooks.endpoint SET paused = false").await;
    let claim =
        "SELECT count(delivery_id) FROM webhooks.claim('00000000-0000-0000-0000-000000000000', 9, 9, 4, false, 60000)";
    assert_eq!(world.ask::<i64>(claim, &[]).await, 2, "what a second allows");
    world.run("UPDATE webhooks.endpoint SET used_up_to = now() + interval '1 hour'").await;
    assert_eq!(world.ask::<i64>(claim, &[]).await, 0, "that is used up");
    world.run("UPDATE webhooks.endpoint SET used_up_to = '-infinity', max_per_second = 1000").await;
    assert_eq!(world.ask::<i64>(claim, &[]).await, 2, "four may be under way, and two are");
}

//! Endpoints do not slow each other down.

use crate::support::{WebhooksFixture, settings};
use onceward_webhooks::Settings;
use serde_json::json;
use std::collections::BTreeSet;

const EVENTS: u32 = 60;

#[tokio::test]
async fn a_healthy_endpoint_receives_everything_while_others_hang_fail_or_redirect() {
    let slow_retries = Settings { retry_schedule: "0s 1h".parse().unwrap(), ..settings() };
    let fixture = WebhooksFixture::start(slow_retries).await;
    let (hanging, _) = fixture.create_endpoint("acme", "hang").await;
    let (broken, _) = fixture.create_endpoint("acme", "error").await;
    let (redirecting, _) = fixture.create_endpoint("acme", "redirect").await;
    let (healthy, _) = fixture.create_endpoint("acme", "ok").await;
    // The hanging endpoint uses its whole share before anything else is published.
    fixture.publish_sales("acme", 0..10).await;
    fixture.receiver.wait_for("hang", 4).await;
    let first = fixture.receiver.ids("hang");
    let ids: BTreeSet<String> = fixture.publish_sales("acme", 10..EVENTS).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &healthy, "delivered", EVENTS as usize).await;
    assert!(fixture.receiver.ids("ok").is_superset(&ids));
    assert_eq!(fixture.receiver.requests("ok").len(), EVENTS as usize, "each event was received once");

    assert_eq!(fixture.receiver.ids("hang"), first, "its first requests still hang, and it received no more");
    assert_eq!(fixture.wait_for_deliveries("acme", &hanging, "pending", EVENTS as usize).await.len(), EVENTS as usize);
    fixture.wait_for_endpoint_state("acme", &broken, "failing").await;
    fixture.wait_for_endpoint_state("acme", &redirecting, "failing").await;
    fixture.receiver.wait_for("redirect", 1).await;
    assert!(fixture.receiver.requests("trap").is_empty(), "a redirect is never followed");
    let log =
        &fixture.deliveries("acme", &redirecting).await.into_iter().find(|one| one["attempts"] == 1).unwrap()["log"][0];
    assert_eq!(log["status"], 302);
    assert!(log["error"].as_str().is_some_and(|error| error.contains("redirects are not followed")), "{log}");
}

/// Returns the median time from the creation of these events' deliveries to an endpoint until they were delivered.
async fn median_ms(fixture: &WebhooksFixture, endpoint: &str, events: &BTreeSet<String>) -> f64 {
    let sql =
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM settled_at - created_at)::float8 * 1000)
        FROM webhooks.delivery WHERE endpoint_id = $1::text::uuid AND event_id::text = ANY ($2)";
    fixture.query(sql, &[&endpoint, &events.iter().collect::<Vec<_>>()]).await
}

/// A delivery behind a hanging one would wait for ten minutes.
#[tokio::test]
async fn hanging_endpoints_do_not_slow_down_a_healthy_one() {
    const HANGING: usize = 5;
    let share = settings().in_flight_per_endpoint as usize;
    let long_timeout = Settings { timeout_ms: 600_000, in_flight: 4 * HANGING * share, ..settings() };
    let fixture = WebhooksFixture::start(long_timeout).await;
    let (healthy, _) = fixture.create_endpoint("acme", "ok").await;
    let alone: BTreeSet<String> = fixture.publish_sales("acme", 0..EVENTS).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &healthy, "delivered", alone.len()).await;
    for n in 0..HANGING {
        fixture.create_endpoint("acme", &format!("hang-{n}")).await;
    }
    let mut published = alone.clone();
    published.extend(fixture.publish_sales("acme", EVENTS..EVENTS + 10).await);
    for n in 0..HANGING {
        fixture.receiver.wait_for(&format!("hang-{n}"), share).await;
    }
    // All hanging endpoints now use their whole share and never respond.
    fixture.wait_for_deliveries("acme", &healthy, "delivered", published.len()).await;
    let beside: BTreeSet<String> = fixture.publish_sales("acme", EVENTS + 10..2 * EVENTS).await.into_iter().collect();
    published.extend(beside.iter().cloned());
    fixture.wait_for_deliveries("acme", &healthy, "delivered", published.len()).await;
    assert_eq!(fixture.receiver.ids("ok"), published);
    let (without_ms, with_ms) =
        (median_ms(&fixture, &healthy, &alone).await, median_ms(&fixture, &healthy, &beside).await);
    println!("a healthy endpoint's median: {without_ms:.1} ms alone, {with_ms:.1} ms beside {HANGING} that hang");
    assert!(with_ms <= 3.0 * without_ms + 1_000.0, "{with_ms} ms instead of {without_ms} ms");
    let retried = "SELECT count(*) FROM webhooks.delivery WHERE lease > 1 OR tried > 1";
    assert_eq!(fixture.query::<i64>(retried, &[]).await, 0, "no request timed out and was sent again");
    let held = "SELECT count(*) FROM webhooks.delivery WHERE leased_until > now() AND tried = 0";
    assert_eq!(
        fixture.query::<i64>(held, &[]).await,
        (HANGING * share) as i64,
        "the requests to the hanging endpoints are still open"
    );
}

#[tokio::test]
async fn failing_endpoints_that_hang_delay_only_each_other() {
    let small_pool = Settings { in_flight: 8, retry_schedule: "0s 1h".parse().unwrap(), ..settings() };
    let fixture = WebhooksFixture::start(small_pool).await;
    for n in 0..10 {
        fixture.create_endpoint("acme", &format!("hang-{n}")).await;
    }
    fixture.execute("UPDATE webhooks.endpoint SET failing_since = now()").await;
    let (healthy, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.publish_sales("acme", 0..20).await;
    fixture.wait_for_deliveries("acme", &healthy, "delivered", 20).await;
    let hanging: usize = (0..10).map(|n| fixture.receiver.requests(&format!("hang-{n}")).len()).sum();
    assert!(hanging <= 2, "{hanging} requests hang, but only two may");
}

#[tokio::test]
async fn an_endpoint_with_a_rate_limit_gets_no_more_requests_than_it_allows() {
    let fixture = WebhooksFixture::start_api_only(settings(), None).await;
    let (endpoint, _) =
        fixture.create_endpoint_with("acme", "ok", json!({ "paused": true, "max_per_second": 2 })).await;
    let (mut instance, stop) = fixture.platform.another_instance();
    instance.run_consumers();
    fixture.publish_sales("acme", 0..6).await;
    fixture.wait_for_deliveries("acme", &endpoint, "pending", 6).await;
    stop.cancel();
    assert!(instance.finished().await);
    fixture.execute("UPDATE webhooks.endpoint SET paused = false").await;
    let request = json!({ "after": uuid::Uuid::nil(), "limit": 9, "visits": 9, "in_flight": 4, "failing": false, "lease_ms": 60_000 });
    let claim = format!("SELECT count(delivery_id) FROM webhooks.claim('{request}')");
    assert_eq!(fixture.query::<i64>(&claim, &[]).await, 2, "the requests that one second allows");
    fixture.execute("UPDATE webhooks.endpoint SET used_up_to = now() + interval '1 hour'").await;
    assert_eq!(fixture.query::<i64>(&claim, &[]).await, 0, "the rate is used up");
    fixture.execute("UPDATE webhooks.endpoint SET used_up_to = '-infinity', max_per_second = 1000").await;
    assert_eq!(fixture.query::<i64>(&claim, &[]).await, 2, "four may be in flight, and two are");
}

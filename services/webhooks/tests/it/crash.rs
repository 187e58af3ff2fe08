//! Deliveries of a dispatcher that dies are taken over by others.

use crate::support::{WebhooksFixture, settings};
use onceward::runtime::ProcessRuntime;
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_message_is_sent_again_if_its_dispatcher_dies_before_recording_the_result() {
    let mut fixture = WebhooksFixture::start_api_only(settings(), None).await;
    let (endpoint, secret) = fixture.create_endpoint("acme", "held").await;
    let (mut killed, _stop) = fixture.platform.another_instance();
    killed.run_consumers();
    let ids = fixture.publish_sales("acme", 0..1).await;
    fixture.receiver.wait_for("held", 1).await;
    drop(killed);
    assert_eq!(fixture.deliveries("acme", &endpoint).await[0]["attempts"], 0, "no attempt was recorded");
    fixture.expire_leases().await;
    fixture.platform.run_consumers();
    let requests = fixture.receiver.wait_for("held", 2).await;
    assert_eq!(requests.iter().map(|request| &request.id).collect::<Vec<_>>(), [&ids[0]; 2]);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[1].verify(&secret), Ok(()));
    assert_eq!(fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await[0]["attempts"], 1);
}

#[tokio::test]
async fn a_dispatcher_that_lost_its_lease_records_nothing() {
    let mut fixture = WebhooksFixture::start_api_only(settings(), None).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "held").await;
    let (mut late, stop) = fixture.platform.another_instance();
    late.run_consumers();
    fixture.publish_sales("acme", 0..1).await;
    fixture.receiver.wait_for("held", 1).await;
    // It claims nothing more, and waits for its requests in flight.
    stop.cancel();
    let late = tokio::spawn(late.finished());
    fixture.expire_leases().await;
    fixture.platform.run_consumers();
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await;
    fixture.receiver.release_one();
    assert!(late.await.expect("the dispatcher ends"), "it finished its requests in flight");
    let delivery = &fixture.deliveries("acme", &endpoint).await[0];
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_i64()), (Some("delivered"), Some(1)));
    assert_eq!(fixture.get("acme", &format!("endpoints/{endpoint}")).await.with_status(200)["state"], "active");
}

#[tokio::test]
async fn every_event_arrives_at_least_once_while_dispatchers_are_killed() {
    const EVENTS: u32 = 120;
    let mut fixture = WebhooksFixture::start_api_only(Settings { in_flight_per_endpoint: 3, ..settings() }, None).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "ok").await;
    let mut published = BTreeSet::new();
    for round in 0..4 {
        let (mut killed, _stop) = fixture.platform.another_instance();
        killed.run_consumers();
        let before = fixture.receiver.requests("ok").len();
        published.extend(fixture.publish_sales("acme", round * 30..(round + 1) * 30).await);
        fixture.receiver.wait_for("ok", before + 10).await;
        drop(killed);
        fixture.expire_leases().await;
    }
    assert_eq!(published.len(), EVENTS as usize);
    fixture.platform.run_consumers();
    // Leases of an instance that was still shutting down are expired, too.
    eventually("everything is delivered", || async {
        fixture.expire_leases().await;
        let left: i64 = fixture.query("SELECT count(*) FROM webhooks.delivery WHERE state <> 'delivered'", &[]).await;
        let created: i64 = fixture.query("SELECT count(*) FROM webhooks.delivery", &[]).await;
        (left == 0 && created == i64::from(EVENTS)).then_some(())
    })
    .await;
    assert_eq!(fixture.receiver.ids("ok"), published, "every id was received, and no other");
    assert_eq!(
        fixture.wait_for_deliveries("acme", &endpoint, "delivered", EVENTS as usize).await.len(),
        EVENTS as usize
    );
}

#[tokio::test]
async fn two_dispatchers_share_the_work_and_send_nothing_twice() {
    let mut fixture = WebhooksFixture::start_api_only(settings(), None).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "ok").await;
    let (mut other, stop) = fixture.platform.another_instance();
    other.run_consumers();
    fixture.platform.run_consumers();
    let published: BTreeSet<String> = fixture.publish_sales("acme", 0..100).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 100).await;
    assert_eq!(fixture.receiver.requests("ok").len(), 100);
    assert_eq!(fixture.receiver.ids("ok"), published);
    stop.cancel();
    assert!(other.finished().await);
}

#[tokio::test]
async fn a_dispatcher_stops_within_its_grace_period_even_if_an_endpoint_hangs() {
    let fixture = WebhooksFixture::start_api_only(settings(), None).await;
    let (endpoint, _) = fixture.create_endpoint("acme", "hang").await;
    let mut config = fixture.platform.config().clone();
    config.shutdown.grace_ms = 2_000;
    let stop = CancellationToken::new();
    let mut running =
        ProcessRuntime::new(fixture.platform.platform().clone(), config, stop.clone()).expect("the platform connects");
    running.run_consumers();
    fixture.publish_sales("acme", 0..1).await;
    fixture.receiver.wait_for("hang", 1).await;
    stop.cancel();
    assert!(running.finished().await, "it gave up the request in time");
    let delivery = &fixture.deliveries("acme", &endpoint).await[0];
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_i64()), (Some("pending"), Some(0)));
}

//! Who dies with a delivery in hand leaves it to others.

use crate::support::{World, settings};
use onceward::runtime::Running;
use onceward_testkit::eventually;
use onceward_webhooks::Settings;
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_dispatcher_that_dies_between_sending_and_recording_leaves_the_same_message_to_another() {
    let mut world = World::idle(settings(), None).await;
    let (endpoint, secret) = world.endpoint("acme", "held").await;
    let (mut doomed, _stop) = world.platform.another_instance();
    doomed.run_consumers();
    let ids = world.sell("acme", 0..1).await;
    world.receiver.wait("held", 1).await;
    drop(doomed);
    assert_eq!(world.deliveries("acme", &endpoint).await[0]["attempts"], 0, "nothing was written down");
    world.leases_run_out().await;
    world.platform.run_consumers();
    let got = world.receiver.wait("held", 2).await;
    assert_eq!(got.iter().map(|got| &got.id).collect::<Vec<_>>(), [&ids[0]; 2]);
    assert_eq!(got[0].body, got[1].body);
    assert_eq!(got[1].verify(&secret), Ok(()));
    assert_eq!(world.settled("acme", &endpoint, "delivered", 1).await[0]["attempts"], 1);
}

#[tokio::test]
async fn a_dispatcher_that_comes_back_too_late_changes_nothing() {
    let mut world = World::idle(settings(), None).await;
    let (endpoint, _) = world.endpoint("acme", "held").await;
    let (mut late, stop) = world.platform.another_instance();
    late.run_consumers();
    world.sell("acme", 0..1).await;
    world.receiver.wait("held", 1).await;
    // It takes no more, and waits for what it has in hand.
    stop.cancel();
    let late = tokio::spawn(late.finished());
    world.leases_run_out().await;
    world.platform.run_consumers();
    world.settled("acme", &endpoint, "delivered", 1).await;
    world.receiver.release_one();
    assert!(late.await.expect("it ends"), "it finished what it had in hand");
    let delivery = &world.deliveries("acme", &endpoint).await[0];
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_i64()), (Some("delivered"), Some(1)));
    assert_eq!(world.get("acme", &format!("endpoints/{endpoint}")).await.with(200)["state"], "active");
}

#[tokio::test]
async fn every_event_arrives_at_least_once_while_dispatchers_are_killed() {
    const EVENTS: u32 = 120;
    let mut world = World::idle(Settings { in_flight_per_endpoint: 3, ..settings() }, None).await;
    let (endpoint, _) = world.endpoint("acme", "ok").await;
    let mut sold = BTreeSet::new();
    for round in 0..4 {
        let (mut doomed, _stop) = world.platform.another_instance();
        doomed.run_consumers();
        let before = world.receiver.got("ok").len();
        sold.extend(world.sell("acme", round * 30..(round + 1) * 30).await);
        world.receiver.wait("ok", before + 10).await;
        drop(doomed);
        world.leases_run_out().await;
    }
    assert_eq!(sold.len(), EVENTS as usize);
    world.platform.run_consumers();
    // What was in the hands of one that was still dying runs out, too.
    eventually("everything is delivered", || async {
        world.leases_run_out().await;
        let left: i64 = world.ask("SELECT count(*) FROM webhooks.delivery WHERE state <> 'delivered'", &[]).await;
        let made: i64 = world.ask("SELECT count(*) FROM webhooks.delivery", &[]).await;
        (left == 0 && made == i64::from(EVENTS)).then_some(())
    })
    .await;
    assert_eq!(world.receiver.ids("ok"), sold, "each id was seen, and nothing else");
    assert_eq!(world.settled("acme", &endpoint, "delivered", EVENTS as usize).await.len(), EVENTS as usize);
}

#[tokio::test]
async fn two_dispatchers_share_the_work_and_send_nothing_twice() {
    let mut world = World::idle(settings(), None).await;
    let (endpoint, _) = world.endpoint("acme", "ok").await;
    let (mut other, stop) = world.platform.another_instance();
    other.run_consumers();
    world.platform.run_consumers();
    let sold: BTreeSet<String> = world.sell("acme", 0..100).await.into_iter().collect();
    world.settled("acme", &endpoint, "delivered", 100).await;
    assert_eq!(world.receiver.got("ok").len(), 100);
    assert_eq!(world.receiver.ids("ok"), sold);
    stop.cancel();
    assert!(other.finished().await);
}

#[tokio::test]
async fn a_dispatcher_stops_in_time_although_an_endpoint_hangs() {
    let world = World::idle(settings(), None).await;
    let (endpoint, _) = world.endpoint("acme", "hang").await;
    let mut config = world.platform.config().clone();
    config.shutdown.grace_ms = 2_000;
    let stop = CancellationToken::new();
    let mut running = Running::new(world.platform.platform().clone(), config, stop.clone()).expect("the parts connect");
    running.run_consumers();
    world.sell("acme", 0..1).await;
    world.receiver.wait("hang", 1).await;
    stop.cancel();
    assert!(running.finished().await, "it gave up the request by itself");
    let delivery = &world.deliveries("acme", &endpoint).await[0];
    assert_eq!((delivery["state"].as_str(), delivery["attempts"].as_i64()), (Some("pending"), Some(0)));
}

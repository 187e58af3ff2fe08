//! The same on every bus.

use crate::support::{World, settings};
use onceward::transport::BusKind;
use onceward_testkit::{Bus, left_out};
use std::collections::BTreeSet;

async fn events_reach_their_endpoint_over(kind: BusKind) {
    let bus = Bus::shared(kind);
    let mut world = World::idle(settings(), bus.url.as_deref()).await;
    world.platform.run_consumers();
    let (endpoint, _) = world.endpoint("acme", "ok").await;
    let sold: BTreeSet<String> = world.sell("acme", 0..20).await.into_iter().collect();
    world.settled("acme", &endpoint, "delivered", 20).await;
    assert_eq!(world.receiver.ids("ok"), sold);
}

#[tokio::test]
async fn events_reach_their_endpoint_over_rabbitmq() {
    if !left_out("rabbitmq") {
        events_reach_their_endpoint_over(BusKind::RabbitMq).await;
    }
}

#[tokio::test]
async fn events_reach_their_endpoint_over_redis() {
    if !left_out("redis") {
        events_reach_their_endpoint_over(BusKind::Redis).await;
    }
}

#[tokio::test]
async fn events_reach_their_endpoint_over_kafka() {
    if !left_out("kafka") {
        events_reach_their_endpoint_over(BusKind::Kafka).await;
    }
}

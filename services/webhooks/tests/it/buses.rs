//! Delivery works the same on every bus.

use crate::support::{WebhooksFixture, settings};
use onceward::broker::BusKind;
use onceward_testkit::{Bus, left_out};
use std::collections::BTreeSet;

async fn events_reach_their_endpoint_over(kind: BusKind) {
    let bus = Bus::shared(kind);
    let mut fixture = WebhooksFixture::start_api_only(settings(), bus.url.as_deref()).await;
    fixture.platform.run_consumers();
    let (endpoint, _) = fixture.create_endpoint("acme", "ok").await;
    let published: BTreeSet<String> = fixture.publish_sales("acme", 0..20).await.into_iter().collect();
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 20).await;
    assert_eq!(fixture.receiver.ids("ok"), published);
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

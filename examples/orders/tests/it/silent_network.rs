//! The network between the service and its broker goes silent: connections stay open, but nothing arrives.

use crate::support::{
    api::ApiClient,
    bus::{Bus, on_buses},
    check::{ExpectedOrders, check},
    load::OrderLoad,
    processes::example,
    sql_publisher::SqlPublisher,
};
use onceward_testkit::{Fleet, PrivateDatabase, TcpProxy, eventually};
use std::time::{Duration, Instant};

/// How long a broker may be silent: the values of `bus.heartbeat_ms` and `bus.publish_timeout_ms`.
const HEARTBEAT_MS: u64 = 3_000;
const PUBLISH_TIMEOUT_MS: u64 = 3_000;
/// How many times slower a busy machine may be. Without a heartbeat, noticing a silent connection would take the
/// operating system a quarter of an hour.
const FACTOR: u32 = 6;
const SILENCES: usize = 2;
const ORDERS_BETWEEN: u64 = 100;

on_buses!(a_silent_network_is_detected_and_everything_catches_up:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_silent_network_is_detected_and_everything_catches_up(bus: Bus) {
    let proxy = TcpProxy::in_front_of(bus.url.as_deref().unwrap());
    let bus = Bus { url: Some(proxy.url(bus.url.as_deref().unwrap())), ..bus };
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let with_short_timeouts = example()
        .with("ONCEWARD_BUS_HEARTBEAT_MS", &HEARTBEAT_MS.to_string())
        .with("ONCEWARD_BUS_PUBLISH_TIMEOUT_MS", &PUBLISH_TIMEOUT_MS.to_string());
    let fleet = Fleet::start(&with_short_timeouts, &database, &bus).await;
    let api = ApiClient::of(&fleet);
    let load = OrderLoad::start(&api, rand::random());
    let publisher = SqlPublisher::start(database.url(), rand::random());
    let wait_for_status = |wanted: &'static str| {
        let api = api.clone();
        eventually("readiness reports the state of the bus", move || {
            let api = api.clone();
            async move { (api.get("/health/ready").await.ok()?.body["status"] == wanted).then_some(()) }
        })
    };
    let wait_for_orders = || async {
        let enough = load.counters.accepted() + ORDERS_BETWEEN;
        eventually("more orders are accepted", || async { (load.counters.accepted() >= enough).then_some(()) }).await;
    };

    wait_for_status("ready").await;
    for _ in 0..SILENCES {
        wait_for_orders().await;
        proxy.stall();
        let silent_at = Instant::now();
        wait_for_status("degraded").await;
        let detected_after = silent_at.elapsed();
        println!("network test on {}: detected after {:.1} s", bus.kind.name(), detected_after.as_secs_f64());
        let limit = Duration::from_millis(HEARTBEAT_MS.max(PUBLISH_TIMEOUT_MS)) * FACTOR;
        assert!(detected_after < limit, "detected after {detected_after:?}, configured to {HEARTBEAT_MS} ms");
        wait_for_orders().await;
        proxy.resume();
        let back_at = Instant::now();
        wait_for_status("ready").await;
        println!("network test on {}: recovered after {:.1} s", bus.kind.name(), back_at.elapsed().as_secs_f64());
    }
    wait_for_orders().await;
    let expected = ExpectedOrders::collect(load, publisher).await;
    check(&owner, &expected).await;
    fleet.stop().await;
}

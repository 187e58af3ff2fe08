//! Processes killed at the two worst moments: a relay between the broker's confirmation and recording it, and a consumer
//! between its commit and its acknowledgement.
//!
//! A lock in the database, for which only the very next write waits, freezes these moments.

use crate::support::{
    api::ApiClient,
    bus::{Bus, broker, on_buses},
    fixture::statuses,
    processes::{example, token},
};
use onceward_testkit::{Fleet, PrivateDatabase, TcpProxy, eventually};
use serde_json::json;
use tokio_postgres::Client;

const API: usize = Fleet::API;
const WORKER: usize = Fleet::WORKERS[0];
const RELAY: usize = Fleet::RELAYS[0];
const QUEUE: &str = "orders.reserve.v1";
const ORDERS: u64 = 20;

on_buses!(a_relay_killed_before_recording_its_position_publishes_again_and_nothing_is_handled_twice:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_relay_killed_before_recording_its_position_publishes_again_and_nothing_is_handled_twice(bus: Bus) {
    let database = PrivateDatabase::start(&example(), &bus).await;
    let (owner, broker) = (database.owner().await, broker(&bus));
    let mut fleet = Fleet::without_processes(&example(), &database, &bus);
    fleet.start_process(API);
    fleet.start_process(RELAY);
    fleet.wait_until_ready(API).await;
    eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;

    // Lanes can still be read; writing their positions waits.
    let mut locker = database.owner().await;
    let held = locker.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE onceward.lane_turn IN EXCLUSIVE MODE").await.unwrap();
    place_orders(&fleet).await;
    let on_the_bus = || async { broker.waiting(QUEUE).await.ok().flatten() };
    eventually("all orders are on the bus", || async { on_the_bus().await.filter(|n| *n >= ORDERS) }).await;
    fleet.kill(RELAY).await;
    // The relay's record is already at the server, waiting for the lock. Killed a moment earlier, it would not be.
    let terminate =
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    owner.query_one(terminate, &[]).await.unwrap();
    held.rollback().await.unwrap();
    let waiting = "SELECT depth FROM onceward.queue_stats(1000) WHERE queue = '@outbox'";
    let unpublished: i64 = owner.query_one(waiting, &[]).await.unwrap().get(0);
    assert_eq!(unpublished, ORDERS as i64, "the relay had recorded its position");

    fleet.start_process(RELAY);
    eventually("all of them are published again", || async { on_the_bus().await.filter(|n| *n >= 2 * ORDERS) }).await;
    fleet.start_process(WORKER);
    check_all_settled_once(&owner).await;
    eventually("the bus is empty", || async { on_the_bus().await.filter(|n| *n == 0) }).await;
    check_all_settled_once(&owner).await;
    broker.close().await;
    fleet.stop().await;
}

on_buses!(a_consumer_killed_between_commit_and_acknowledgement_handles_nothing_twice:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_consumer_killed_between_commit_and_acknowledgement_handles_nothing_twice(bus: Bus) {
    let database = PrivateDatabase::start(&example(), &bus).await;
    let (owner, broker) = (database.owner().await, broker(&bus));
    let proxy = TcpProxy::in_front_of(bus.url.as_deref().unwrap());
    let behind_proxy = Bus { url: Some(proxy.url(bus.url.as_deref().unwrap())), ..bus.clone() };
    let mut fleet = Fleet::without_processes(&example(), &database, &bus);
    fleet.start_process(API);
    fleet.start_process(RELAY);
    fleet.wait_until_ready(API).await;
    place_orders(&fleet).await;
    let on_the_bus = || async { broker.waiting(QUEUE).await.ok().flatten() };
    eventually("all orders are on the bus", || async { on_the_bus().await.filter(|n| *n == ORDERS) }).await;

    let mut locker = database.owner().await;
    let held = locker.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE onceward.inbox IN EXCLUSIVE MODE").await.unwrap();
    fleet.start_process_on(WORKER, &behind_proxy);
    let blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%onceward.land(%'";
    eventually("the consumer is about to land the messages", || async {
        owner.query_opt(blocked, &[]).await.ok().flatten()
    })
    .await;
    proxy.stall();
    held.rollback().await.unwrap();
    let landed = "SELECT FROM onceward.message_log WHERE copy = 1 LIMIT 1";
    eventually("the messages have landed", || async { owner.query_opt(landed, &[]).await.unwrap() }).await;
    fleet.kill(WORKER).await;
    proxy.cut();

    fleet.start_process(WORKER);
    check_all_settled_once(&owner).await;
    eventually("the messages are acknowledged", || async { on_the_bus().await.filter(|n| *n == 0) }).await;
    check_all_settled_once(&owner).await;
    broker.close().await;
    fleet.stop().await;
}

async fn place_orders(fleet: &Fleet) {
    let api = ApiClient::of(fleet);
    for number in 0..ORDERS {
        let sku = format!("article-{}", number % 3);
        api.place(&token("acme"), &format!("order-{number}"), &json!({"sku": sku, "quantity": 1}))
            .await
            .with_status(202);
    }
}

async fn check_all_settled_once(owner: &Client) {
    eventually("every order is settled", || async {
        let settled = statuses(owner).await.iter().filter(|status| *status == "reserved").count();
        (settled == ORDERS as usize).then_some(())
    })
    .await;
    let totals = "SELECT sum(1000 - available)::bigint, (SELECT count(*) FROM onceward.message_log
                 WHERE event_type = 'order.settled' AND copy = 0) FROM orders.stock";
    let row = owner.query_one(totals, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (ORDERS as i64, ORDERS as i64),
        "an order was handled twice"
    );
}

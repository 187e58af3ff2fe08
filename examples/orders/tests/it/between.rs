//! The kill drill at its two worst moments: a relay between the broker's word and its own note of it, and a consumer
//! between its commit and its word to the broker.
//!
//! The moments are held still by a lock in the database, which only the very next write waits for.

use crate::support::{
    api::Api,
    bus::{Bus, broker, on_buses},
    fleet::{example, token},
    shop::statuses,
};
use onceward_testkit::{Fleet, PrivateDatabase, Proxy, eventually};
use serde_json::json;
use tokio_postgres::Client;

const API: usize = Fleet::API;
const WORKER: usize = Fleet::WORKERS[0];
const RELAY: usize = Fleet::RELAYS[0];
const QUEUE: &str = "orders.reserve.v1";
const ORDERS: u64 = 20;

on_buses!(a_relay_killed_between_publish_and_mark_publishes_again_and_nothing_is_doubled:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_relay_killed_between_publish_and_mark_publishes_again_and_nothing_is_doubled(bus: Bus) {
    let database = PrivateDatabase::start(&example(), &bus).await;
    let (owner, broker) = (database.owner().await, broker(&bus));
    let mut fleet = Fleet::nobody(&example(), &database, &bus);
    fleet.begin(API);
    fleet.begin(RELAY);
    fleet.ready(API).await;
    eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;

    // Reading lanes goes on; writing where they stand waits.
    let mut locker = database.owner().await;
    let held = locker.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE onceward.lane_turn IN EXCLUSIVE MODE").await.unwrap();
    place_orders(&fleet).await;
    let on_the_bus = || async { broker.waiting(QUEUE).await.ok().flatten() };
    eventually("all orders are on the bus", || async { on_the_bus().await.filter(|n| *n >= ORDERS) }).await;
    fleet.kill(RELAY).await;
    // Its note is with the server already, waiting for the lock. Killed a moment earlier, it would not be.
    let unsaid = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    owner.query_one(unsaid, &[]).await.unwrap();
    held.rollback().await.unwrap();
    let waiting = "SELECT depth FROM onceward.queue_stats(1000) WHERE queue = '@outbox'";
    let unmarked: i64 = owner.query_one(waiting, &[]).await.unwrap().get(0);
    assert_eq!(unmarked, ORDERS as i64, "the relay had marked what it published");

    fleet.begin(RELAY);
    eventually("all of them are published again", || async { on_the_bus().await.filter(|n| *n >= 2 * ORDERS) }).await;
    fleet.begin(WORKER);
    all_settled_once(&owner).await;
    eventually("the bus is empty", || async { on_the_bus().await.filter(|n| *n == 0) }).await;
    all_settled_once(&owner).await;
    broker.close().await;
    fleet.stop().await;
}

on_buses!(a_consumer_killed_between_commit_and_ack_gets_all_again_and_doubles_nothing:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_consumer_killed_between_commit_and_ack_gets_all_again_and_doubles_nothing(bus: Bus) {
    let database = PrivateDatabase::start(&example(), &bus).await;
    let (owner, broker) = (database.owner().await, broker(&bus));
    let proxy = Proxy::before(bus.url.as_deref().unwrap());
    let behind_proxy = Bus { url: Some(proxy.url(bus.url.as_deref().unwrap())), ..bus.clone() };
    let mut fleet = Fleet::nobody(&example(), &database, &bus);
    fleet.begin(API);
    fleet.begin(RELAY);
    fleet.ready(API).await;
    place_orders(&fleet).await;
    let on_the_bus = || async { broker.waiting(QUEUE).await.ok().flatten() };
    eventually("all orders are on the bus", || async { on_the_bus().await.filter(|n| *n == ORDERS) }).await;

    let mut locker = database.owner().await;
    let held = locker.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE onceward.inbox IN EXCLUSIVE MODE").await.unwrap();
    fleet.begin_on(WORKER, &behind_proxy);
    let blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%onceward.land(%'";
    eventually("the consumer is about to land them", || async { owner.query_opt(blocked, &[]).await.ok().flatten() })
        .await;
    proxy.stall();
    held.rollback().await.unwrap();
    let landed = "SELECT FROM onceward.message_log WHERE copy = 1 LIMIT 1";
    eventually("they have landed", || async { owner.query_opt(landed, &[]).await.unwrap() }).await;
    fleet.kill(WORKER).await;
    proxy.cut();

    fleet.begin(WORKER);
    all_settled_once(&owner).await;
    eventually("the bus has been told", || async { on_the_bus().await.filter(|n| *n == 0) }).await;
    all_settled_once(&owner).await;
    broker.close().await;
    fleet.stop().await;
}

async fn place_orders(fleet: &Fleet) {
    let api = Api::of(fleet);
    for number in 0..ORDERS {
        let sku = format!("article-{}", number % 3);
        api.place(&token("acme"), &format!("order-{number}"), &json!({"sku": sku, "quantity": 1})).await.order_id();
    }
}

async fn all_settled_once(owner: &Client) {
    eventually("every order is settled", || async {
        let settled = statuses(owner).await.iter().filter(|status| *status == "reserved").count();
        (settled == ORDERS as usize).then_some(())
    })
    .await;
    let taken = "SELECT sum(1000 - available)::bigint, (SELECT count(*) FROM onceward.message_log
                 WHERE event_type = 'order.settled' AND copy = 0) FROM orders.stock";
    let row = owner.query_one(taken, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (ORDERS as i64, ORDERS as i64),
        "something was done twice"
    );
}

//! A stopped consumer restarts with a long queue, as two processes at once.
//!
//! `ONCEWARD_REPLAY` sets the number of waiting messages; the default is 50,000 on PostgreSQL and Kafka, and 10,000 on
//! RabbitMQ and Redis, which handle them one by one.

use crate::support::{
    bus::{Bus, broker, on_buses},
    processes::example,
};
use onceward::broker::BusKind;
use onceward_testkit::{Fleet, PrivateDatabase, env_number, eventually, eventually_within};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const MESSAGES: i64 = 50_000;
const MESSAGES_ONE_BY_ONE: i64 = 10_000;
const BATCH_SIZE: i64 = 1_000;
/// The number of orders per article, of which 1000 are in stock.
const ORDERS_PER_ARTICLE: i64 = 500;
/// This much work may take minutes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

on_buses!(two_consumers_that_start_at_once_catch_up_and_handle_nothing_twice);
async fn two_consumers_that_start_at_once_catch_up_and_handle_nothing_twice(bus: Bus) {
    let default = match bus.kind {
        BusKind::RabbitMq | BusKind::Redis => MESSAGES_ONE_BY_ONE,
        BusKind::Postgres | BusKind::Kafka => MESSAGES,
    };
    let messages = env_number("ONCEWARD_REPLAY").map_or(default, |number| i64::try_from(number).expect("a number"));
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let mut fleet = Fleet::without_processes(&example(), &database, &bus);
    if bus.is_external() {
        fleet.start_process(Fleet::RELAYS[0]);
        wait_until_declared(&bus).await;
    }
    for first in (1..=messages).step_by(BATCH_SIZE as usize) {
        place(&owner, first, messages.min(first + BATCH_SIZE - 1)).await;
    }
    if bus.is_external() {
        wait_until("everything is on the bus", || async { count(&owner, UNPUBLISHED).await == 0 }).await;
    }
    assert_eq!(count(&owner, SETTLED).await, 0, "a consumer was already running");

    let began = Instant::now();
    Fleet::WORKERS.iter().for_each(|worker| fleet.start_process(*worker));
    wait_until("everything is settled", || async { count(&owner, UNSETTLED).await == 0 }).await;
    let took = began.elapsed();

    wait_until("nothing is left", || async { count(&owner, WAITING).await == 0 }).await;
    assert_eq!(count(&owner, SETTLED).await, messages);
    assert_eq!(count(&owner, EVENTS).await, messages, "an order was settled twice or not at all");
    assert_eq!(count(&owner, DEDUCTED).await, messages, "the deducted quantity is not the ordered one");
    assert_eq!(count(&owner, DEAD).await, 0);
    println!(
        "catch-up test on {}: two processes handled {messages} messages in {:.1} s, {:.0} per second",
        bus.kind.name(),
        took.as_secs_f64(),
        messages as f64 / took.as_secs_f64(),
    );
    fleet.stop().await;
}

const UNPUBLISHED: &str = "SELECT depth FROM onceward.queue_stats(1000) WHERE queue = '@outbox'";
const WAITING: &str = "SELECT sum(depth + deferred)::bigint FROM onceward.queue_stats(1000)";
/// Stops at the first row, because it is queried often.
const UNSETTLED: &str =
    "SELECT count(*) FROM (SELECT FROM orders.customer_order WHERE status = 'placed' LIMIT 1) AS one";
const SETTLED: &str = "SELECT count(*) FROM orders.customer_order WHERE status = 'reserved'";
const EVENTS: &str = "SELECT count(*) FROM onceward.message_log WHERE event_type = 'order.settled' AND copy = 0";
const DEDUCTED: &str = "SELECT coalesce(sum(1000 - available), 0)::bigint FROM orders.stock";
const DEAD: &str = "SELECT count(*) FROM onceward.dead_letters";

async fn count(owner: &Client, statement: &str) -> i64 {
    owner.query_one(statement, &[]).await.expect("the query succeeds").get(0)
}

/// Places orders with quantity 1, with their events, in one transaction.
async fn place(owner: &Client, first: i64, last: i64) {
    let statement = "
        WITH placed AS (
            INSERT INTO orders.customer_order (tenant_id, order_id, sku, quantity)
            SELECT 'acme', onceward.uuid_v7(), 'article-' || n / $3, 1 FROM generate_series($1::bigint, $2::bigint) AS n
            RETURNING order_id, sku)
        SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1',
                                jsonb_build_object('orderId', order_id, 'sku', sku, 'quantity', 1), p_ordering_key => sku)
        FROM placed";
    owner.query(statement, &[&first, &last, &ORDERS_PER_ARTICLE]).await.expect("orders can be placed");
}

/// Waits until the relay has created what the broker lacks; before that, nothing would store messages for an absent
/// consumer.
async fn wait_until_declared(bus: &Bus) {
    let broker = broker(bus);
    eventually("the relay has declared the topology", || async { broker.check().await.ok().filter(Vec::is_empty) })
        .await;
    broker.close().await;
}

async fn wait_until<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    eventually_within(PATIENCE, what, || async { ask().await.then_some(()) }).await;
}

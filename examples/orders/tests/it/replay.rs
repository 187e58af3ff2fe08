//! The replay drill: a consumer that was away comes back to a long queue, twice at once.
//!
//! `ONCEWARD_REPLAY` sets how many messages wait. Without it they are 50,000 on PostgreSQL and on Kafka, which keeps what was
//! read, and 10,000 on the others.

use crate::support::{
    bus::{Bus, broker, on_buses},
    fleet::example,
};
use onceward::transport::BusKind;
use onceward_testkit::{Fleet, PrivateDatabase, eventually, eventually_within, variable};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const MESSAGES: i64 = 50_000;
const MESSAGES_OF_OTHERS: i64 = 10_000;
const AT_ONCE: i64 = 1_000;
/// So many of each article are ordered, and there are 1000 of each.
const ORDERS_PER_ARTICLE: i64 = 500;
/// This much work may take minutes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

on_buses!(two_consumers_that_start_at_once_catch_up_and_double_nothing);
async fn two_consumers_that_start_at_once_catch_up_and_double_nothing(bus: Bus) {
    let usual = match bus.kind {
        BusKind::Postgres | BusKind::Kafka => MESSAGES,
        BusKind::RabbitMq | BusKind::Redis => MESSAGES_OF_OTHERS,
    };
    let messages = variable("ONCEWARD_REPLAY").map_or(usual, |given| i64::try_from(given).expect("a number"));
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let mut fleet = Fleet::nobody(&example(), &database, &bus);
    if bus.is_external() {
        fleet.begin(Fleet::RELAYS[0]);
        declared(&bus).await;
    }
    for first in (1..=messages).step_by(AT_ONCE as usize) {
        place(&owner, first, messages.min(first + AT_ONCE - 1)).await;
    }
    if bus.is_external() {
        until("everything is on the bus", || async { count(&owner, UNPUBLISHED).await == 0 }).await;
    }
    assert_eq!(count(&owner, SETTLED).await, 0, "somebody consumed already");

    let began = Instant::now();
    Fleet::WORKERS.iter().for_each(|worker| fleet.begin(*worker));
    until("everything is settled", || async { count(&owner, UNSETTLED).await == 0 }).await;
    let took = began.elapsed();

    until("nothing waits any more", || async { count(&owner, WAITING).await == 0 }).await;
    assert_eq!(count(&owner, SETTLED).await, messages);
    assert_eq!(count(&owner, EVENTS).await, messages, "an order was settled twice or not at all");
    assert_eq!(count(&owner, TAKEN).await, messages, "more or less was taken out of the stock than was ordered");
    assert_eq!(count(&owner, DEAD).await, 0);
    println!(
        "replay drill on {}: {messages} messages caught up by two processes in {:.1} s, {:.0} a second",
        bus.kind.name(),
        took.as_secs_f64(),
        messages as f64 / took.as_secs_f64(),
    );
    fleet.stop().await;
}

const UNPUBLISHED: &str = "SELECT depth FROM onceward.queue_stats(1000) WHERE queue = '@outbox'";
const WAITING: &str = "SELECT sum(depth + deferred)::bigint FROM onceward.queue_stats(1000)";
/// Stops at the first, because it is asked often.
const UNSETTLED: &str =
    "SELECT count(*) FROM (SELECT FROM orders.customer_order WHERE status = 'placed' LIMIT 1) AS one";
const SETTLED: &str = "SELECT count(*) FROM orders.customer_order WHERE status = 'reserved'";
const EVENTS: &str = "SELECT count(*) FROM onceward.message_log WHERE event_type = 'order.settled' AND copy = 0";
const TAKEN: &str = "SELECT coalesce(sum(1000 - available), 0)::bigint FROM orders.stock";
const DEAD: &str = "SELECT count(*) FROM onceward.dead_letters";

async fn count(owner: &Client, statement: &str) -> i64 {
    owner.query_one(statement, &[]).await.expect("the database can be asked").get(0)
}

/// Orders of one each, with their events, in one transaction.
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

/// The relay makes what the broker lacks; before that, nothing would keep messages for a consumer that is away.
async fn declared(bus: &Bus) {
    let broker = broker(bus);
    eventually("the relay has declared the topology", || async { broker.check().await.ok().filter(Vec::is_empty) })
        .await;
    broker.close().await;
}

async fn until<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    eventually_within(PATIENCE, what, || async { ask().await.then_some(()) }).await;
}

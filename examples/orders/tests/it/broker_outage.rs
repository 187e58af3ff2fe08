//! The outage drill: the broker is killed under load and restarted later.
//!
//! `ONCEWARD_OUTAGE_S` sets the length of the outage (default 6 s).

use crate::support::{
    api::ApiClient,
    bus::on_brokers,
    check::{ExpectedOrders, check},
    load::{LoadCounters, OrderLoad},
    processes::example,
    sql_publisher::SqlPublisher,
};
use onceward::broker::BusKind;
use onceward_testkit::{Fleet, PrivateBroker, PrivateDatabase, env_number, eventually};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

const OUTAGE_S: u64 = 6;
const ORDERS_BETWEEN: u64 = 200;

on_brokers!(a_broker_killed_under_load_loses_nothing);
async fn a_broker_killed_under_load_loses_nothing(kind: BusKind) {
    let outage = Duration::from_secs(env_number("ONCEWARD_OUTAGE_S").unwrap_or(OUTAGE_S));
    let mut broker = PrivateBroker::start(kind).await;
    let bus = broker.bus();
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let fleet = Fleet::start(&example(), &database, &bus).await;
    let api = ApiClient::of(&fleet);
    let load = OrderLoad::start(&api, rand::random());
    let publisher = SqlPublisher::start(database.url(), rand::random());

    wait_for_orders(&load.counters).await;
    let before = load.counters.take_latencies();
    broker.kill().await;
    let gone_at = Instant::now();
    eventually("the API reports that the bus is gone, and stays ready", || async {
        let ready = api.get("/health/ready").await.ok()?;
        assert!(ready.status == 200 || has_only_timeouts(&ready.body), "requests do not need the bus: {}", ready.body);
        (ready.body["status"] == "degraded").then_some(())
    })
    .await;
    while gone_at.elapsed() < outage {
        wait_for_orders(&load.counters).await;
        assert_eq!(failure_counts(&owner).await, (0, 0), "an outage was counted as a message's failure");
    }
    let during = load.counters.take_latencies();
    let bound = 10 * before.p95() + Duration::from_secs(1);
    assert!(during.p95() <= bound, "requests waited for the bus: {during} during the outage, {before} before");
    let waiting = unpublished(&owner).await;
    assert!(waiting > 0, "nothing waited for the bus");
    let last_of_the_outage = newest_order(&owner).await;
    broker.restart().await;
    let back_at = Instant::now();
    eventually("all waiting orders are settled", || async {
        settled_up_to(&owner, last_of_the_outage).await.then_some(())
    })
    .await;
    let drained = back_at.elapsed();
    let after = load.counters.take_latencies();

    let expected = ExpectedOrders::collect(load, publisher).await;
    check(&owner, &expected).await;
    println!(
        "outage drill on {}: down for {:.1} s, {} accepted, {waiting} waited in the outbox, settled {:.2} s after its return; \
         request latency before {before}, during {during}, after {after}",
        kind.name(),
        (back_at - gone_at).as_secs_f64(),
        expected.orders().len(),
        drained.as_secs_f64(),
    );
    fleet.stop().await;
}

/// Returns whether every required check that fails only timed out, as happens on a busy machine.
fn has_only_timeouts(report: &Value) -> bool {
    let mut failed = report["checks"].as_array().into_iter().flatten().filter(|check| check["ok"] == false).peekable();
    let is_timeout = |check: &Value| check["detail"].as_str().is_some_and(|detail| detail.contains("no answer within"));
    failed.peek().is_some() && failed.all(|check| check["required"] == false || is_timeout(check))
}

async fn wait_for_orders(counters: &LoadCounters) {
    let enough = counters.accepted() + ORDERS_BETWEEN;
    eventually("more orders are accepted", || async { (counters.accepted() >= enough).then_some(()) }).await;
}

async fn unpublished(owner: &Client) -> i64 {
    let statement = "SELECT depth FROM onceward.queue_stats(1000000) WHERE queue = '@outbox'";
    owner.query_one(statement, &[]).await.expect("the query succeeds").get(0)
}

/// Returns how many outbox messages have a failed attempt, and how many are dead letters.
async fn failure_counts(owner: &Client) -> (i64, i64) {
    let statement = "
        SELECT (SELECT count(*)
                FROM onceward.deferred d
                JOIN onceward.queue q ON q.id = d.queue_id
                WHERE q.name = '@outbox' AND (d.attempts > 0 OR d.last_error IS NOT NULL)),
               (SELECT count(*) FROM onceward.dead_letters WHERE queue = '@outbox')";
    let row = owner.query_one(statement, &[]).await.expect("the query succeeds");
    (row.get(0), row.get(1))
}

async fn newest_order(owner: &Client) -> Uuid {
    let statement = "SELECT order_id FROM orders.customer_order ORDER BY order_id DESC LIMIT 1";
    owner.query_one(statement, &[]).await.expect("there are orders").get(0)
}

async fn settled_up_to(owner: &Client, last: Uuid) -> bool {
    let statement = "SELECT FROM orders.customer_order WHERE order_id <= $1 AND status = 'placed' LIMIT 1";
    owner.query_opt(statement, &[&last]).await.expect("the query succeeds").is_none()
}

//! The outage drill: the broker is killed under load and comes back later.
//!
//! `ONCEWARD_OUTAGE_S` sets how long it is away (6 s without it).

use crate::support::{
    api::Api,
    bus::on_brokers,
    check::{Promised, check},
    fleet::example,
    load::{Load, Seen},
    other_team::OtherTeam,
};
use onceward::transport::BusKind;
use onceward_testkit::{Fleet, PrivateBroker, PrivateDatabase, eventually, variable};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

const OUTAGE_S: u64 = 6;
const ORDERS_BEFORE: u64 = 200;

on_brokers!(a_broker_killed_under_load_costs_nothing_but_time);
async fn a_broker_killed_under_load_costs_nothing_but_time(kind: BusKind) {
    let outage = Duration::from_secs(variable("ONCEWARD_OUTAGE_S").unwrap_or(OUTAGE_S));
    let mut broker = PrivateBroker::start(kind).await;
    let bus = broker.bus();
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let fleet = Fleet::start(&example(), &database, &bus).await;
    let api = Api::of(&fleet);
    let load = Load::start(&api, rand::random());
    let team = OtherTeam::start(database.url(), rand::random());

    some_orders(&load.seen).await;
    let before = load.seen.lap();
    broker.kill().await;
    let gone_at = Instant::now();
    eventually("the API says that the bus is gone, and takes traffic", || async {
        let ready = api.get("/health/ready").await.ok()?;
        assert_eq!(ready.status, 200, "requests do not need the bus: {}", ready.body);
        (ready.body["status"] == "degraded").then_some(())
    })
    .await;
    while gone_at.elapsed() < outage {
        some_orders(&load.seen).await;
    }
    let during = load.seen.lap();
    let waiting = unpublished(&owner).await;
    assert!(waiting > 0, "nothing waited for the bus");
    let last_of_the_outage = newest_order(&owner).await;
    broker.restart().await;
    let back_at = Instant::now();
    eventually("everything that waited is settled", || async {
        settled_up_to(&owner, last_of_the_outage).await.then_some(())
    })
    .await;
    let drained = back_at.elapsed();
    let after = load.seen.lap();

    let promised = Promised::collect(load, team).await;
    check(&owner, &promised).await;
    println!(
        "outage drill on {}: away for {:.1} s, {} accepted, {waiting} waited in the outbox, settled {:.2} s after its return; \
         request latency before {before}, during {during}, after {after}",
        kind.name(),
        (back_at - gone_at).as_secs_f64(),
        promised.orders().len(),
        drained.as_secs_f64(),
    );
    fleet.stop().await;
}

async fn some_orders(seen: &Seen) {
    let enough = seen.accepted() + ORDERS_BEFORE;
    eventually("orders go on being accepted", || async { (seen.accepted() >= enough).then_some(()) }).await;
}

async fn unpublished(owner: &Client) -> i64 {
    let statement = "SELECT depth FROM onceward.queue_stats(1000000) WHERE queue = '@outbox'";
    owner.query_one(statement, &[]).await.expect("the database can be asked").get(0)
}

async fn newest_order(owner: &Client) -> Uuid {
    let statement = "SELECT order_id FROM orders.customer_order ORDER BY order_id DESC LIMIT 1";
    owner.query_one(statement, &[]).await.expect("there are orders").get(0)
}

async fn settled_up_to(owner: &Client, last: Uuid) -> bool {
    let statement = "SELECT FROM orders.customer_order WHERE order_id <= $1 AND status = 'placed' LIMIT 1";
    owner.query_opt(statement, &[&last]).await.expect("the database can be asked").is_none()
}

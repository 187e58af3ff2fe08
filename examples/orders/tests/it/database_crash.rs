//! The database crashes under load and is restarted.

use crate::support::{
    api::ApiClient,
    bus::{Bus, on_buses},
    check::{ExpectedOrders, check},
    load::{LoadCounters, OrderLoad},
    processes::{example, token},
    sql_publisher::SqlPublisher,
};
use onceward_testkit::{Fleet, PrivateDatabase, eventually, wait_until_ready};
use serde_json::json;

const CRASHES: usize = 2;
/// The number of orders accepted before each crash and after the last.
const ORDERS_BETWEEN: u64 = 60;

on_buses!(requests_get_503_while_the_database_is_down_and_everything_catches_up_afterwards);
async fn requests_get_503_while_the_database_is_down_and_everything_catches_up_afterwards(bus: Bus) {
    let mut database = PrivateDatabase::start(&example(), &bus).await;
    let fleet = Fleet::start(&example(), &database, &bus).await;
    let api = ApiClient::of(&fleet);
    let load = OrderLoad::start(&api, rand::random());
    let publisher = SqlPublisher::start(database.url(), rand::random());

    for _ in 0..CRASHES {
        wait_for_orders(&load.counters).await;
        database.crash().await;

        assert_eq!(api.get("/health/live").await.unwrap().status, 200);
        let ready = api.get("/health/ready").await.unwrap();
        assert_eq!(ready.status, 503);
        assert_eq!(ready.body["checks"][0]["name"], "database");
        let order = api.place(&token("acme"), "while-it-is-gone", &json!({"sku": "cup", "quantity": 0})).await;
        assert_eq!(order.status, 422, "validation needs no database");
        let order = api.place(&token("nobody"), "while-it-is-gone", &json!({"sku": "cup", "quantity": 1})).await;
        assert_eq!((order.status, order.body["code"].as_str()), (503, Some("database-unavailable")), "{}", order.body);
        let retry_after_s: u32 = order.header("retry-after").expect("a 503 has a Retry-After").parse().unwrap();
        assert!((1..=5).contains(&retry_after_s));

        database.restart().await;
        wait_until_ready(&fleet.url()).await;
    }
    wait_for_orders(&load.counters).await;

    let expected = ExpectedOrders::collect(load, publisher).await;
    check(&database.owner().await, &expected).await;
    let errors = expected.counters.server_errors();
    assert!(errors.keys().all(|kind| *kind == (503, true)), "5xx other than a 503 with Retry-After: {errors:?}");
    assert!(!errors.is_empty(), "no client noticed the crash");
    fleet.stop().await;
}

/// Waits until more orders are accepted.
async fn wait_for_orders(counters: &LoadCounters) {
    let enough = counters.accepted() + ORDERS_BETWEEN;
    eventually("more orders are accepted", || async { (counters.accepted() >= enough).then_some(()) }).await;
}

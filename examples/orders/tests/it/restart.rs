//! The database goes away under load, as in a crash, and comes back.

use crate::support::{
    api::Api,
    bus::{Bus, on_buses},
    check::{Promised, check},
    fleet::{example, token},
    load::{Load, Seen},
    other_team::OtherTeam,
};
use onceward_testkit::{Fleet, PrivateDatabase, eventually, wait_until_ready};
use serde_json::json;

const CRASHES: usize = 2;
/// So many orders are accepted before each crash and after the last.
const ORDERS_BETWEEN: u64 = 60;

on_buses!(a_database_that_crashes_under_load_is_a_503_and_then_everything_catches_up);
async fn a_database_that_crashes_under_load_is_a_503_and_then_everything_catches_up(bus: Bus) {
    let mut database = PrivateDatabase::start(&example(), &bus).await;
    let fleet = Fleet::start(&example(), &database, &bus).await;
    let api = Api::of(&fleet);
    let load = Load::start(&api, rand::random());
    let team = OtherTeam::start(database.url(), rand::random());

    for _ in 0..CRASHES {
        some_orders(&load.seen).await;
        database.crash().await;

        assert_eq!(api.get("/health/live").await.unwrap().status, 200);
        let ready = api.get("/health/ready").await.unwrap();
        assert_eq!(ready.status, 503);
        assert_eq!(ready.body["checks"][0]["name"], "database");
        let order = api.place(&token("acme"), "while-it-is-gone", &json!({"sku": "cup", "quantity": 0})).await;
        assert_eq!(order.status, 422, "what needs no database is answered without it");
        let order = api.place(&token("nobody"), "while-it-is-gone", &json!({"sku": "cup", "quantity": 1})).await;
        assert_eq!((order.status, order.body["code"].as_str()), (503, Some("database-unavailable")), "{}", order.body);
        let retry_after_s: u32 = order.header("retry-after").expect("a 503 says when to come back").parse().unwrap();
        assert!((1..=5).contains(&retry_after_s));

        database.restart().await;
        wait_until_ready(&fleet.url()).await;
    }
    some_orders(&load.seen).await;

    let promised = Promised::collect(load, team).await;
    check(&database.owner().await, &promised).await;
    let errors = promised.seen.server_errors();
    assert!(errors.keys().all(|kind| *kind == (503, true)), "5xx other than a 503 with Retry-After: {errors:?}");
    assert!(!errors.is_empty(), "the clients did not notice anything");
    fleet.stop().await;
}

/// Waits until the clients got some more orders accepted.
async fn some_orders(seen: &Seen) {
    let enough = seen.accepted() + ORDERS_BETWEEN;
    eventually("orders go on being accepted", || async { (seen.accepted() >= enough).then_some(()) }).await;
}

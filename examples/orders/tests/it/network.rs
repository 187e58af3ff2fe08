//! The network between the service and its broker goes silent: nothing is closed, nothing gets through.

use crate::support::{
    api::Api,
    bus::{Bus, on_buses},
    check::{Promised, check},
    fleet::example,
    load::Load,
    other_team::OtherTeam,
};
use onceward_testkit::{Fleet, PrivateDatabase, Proxy, eventually};
use std::time::Instant;

const SILENCES: usize = 2;
const ORDERS_BETWEEN: u64 = 100;

on_buses!(a_silent_network_is_noticed_and_everything_catches_up:
    on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
async fn a_silent_network_is_noticed_and_everything_catches_up(bus: Bus) {
    let proxy = Proxy::before(bus.url.as_deref().unwrap());
    let bus = Bus { url: Some(proxy.url(bus.url.as_deref().unwrap())), ..bus };
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let fleet = Fleet::start(&example(), &database, &bus).await;
    let api = Api::of(&fleet);
    let load = Load::start(&api, rand::random());
    let team = OtherTeam::start(database.url(), rand::random());
    let state = |wanted: &'static str| {
        let api = api.clone();
        eventually("the bus's state is noticed", move || {
            let api = api.clone();
            async move { (api.get("/health/ready").await.ok()?.body["status"] == wanted).then_some(()) }
        })
    };
    let some_orders = || async {
        let enough = load.seen.accepted() + ORDERS_BETWEEN;
        eventually("orders go on being accepted", || async { (load.seen.accepted() >= enough).then_some(()) }).await;
    };

    state("ready").await;
    for _ in 0..SILENCES {
        some_orders().await;
        proxy.stall();
        let silent_at = Instant::now();
        state("degraded").await;
        println!("network drill on {}: noticed after {:.1} s", bus.kind.name(), silent_at.elapsed().as_secs_f64());
        some_orders().await;
        proxy.resume();
        let back_at = Instant::now();
        state("ready").await;
        println!("network drill on {}: recovered after {:.1} s", bus.kind.name(), back_at.elapsed().as_secs_f64());
    }
    some_orders().await;
    let promised = Promised::collect(load, team).await;
    check(&owner, &promised).await;
    fleet.stop().await;
}

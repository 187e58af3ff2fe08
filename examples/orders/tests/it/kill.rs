//! The kill test: processes are killed at random moments, under load and with duplicates.
//!
//! `ONCEWARD_KILLS` sets the number of kills (default 9); `ONCEWARD_SEED` repeats a run's choices.

use crate::support::{
    api::ApiClient,
    bus::{Bus, on_buses},
    check::{ExpectedOrders, check},
    load::OrderLoad,
    processes::example,
    sql_publisher::SqlPublisher,
};
use onceward_testkit::{Fleet, PrivateDatabase, env_number};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::time::{Duration, Instant};
use tokio::time::interval;

const KILLS: usize = 9;
const TICK: Duration = Duration::from_millis(10);
/// The number of ticks between two kills.
const TICKS_BETWEEN_KILLS: std::ops::Range<usize> = 40..240;

on_buses!(orders_are_handled_once_and_in_order_while_processes_are_killed);
async fn orders_are_handled_once_and_in_order_while_processes_are_killed(bus: Bus) {
    let seed = env_number("ONCEWARD_SEED").unwrap_or_else(rand::random);
    let kills = env_number("ONCEWARD_KILLS").map_or(KILLS, |kills| usize::try_from(kills).expect("a number of kills"));
    eprintln!("kill test on {}: seed {seed}, {kills} kills", bus.kind.name());
    let started = Instant::now();
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let mut fleet = Fleet::start(&example(), &database, &bus).await;
    let load = OrderLoad::start(&ApiClient::of(&fleet), seed);
    let publisher = SqlPublisher::start(database.url(), seed);

    kill_at_random_moments(&mut fleet, kills, seed).await;

    let expected = ExpectedOrders::collect(load, publisher).await;
    check(&owner, &expected).await;
    assert!(expected.poisoned() > 0 && expected.counters.replays() > 0, "the load was too small to show anything");
    println!(
        "kill test on {}: {kills} kills, {} orders accepted, {} responses replayed, {} connections broken, {} poisoned, {:.1} s",
        bus.kind.name(),
        expected.orders().len(),
        expected.counters.replays(),
        expected.counters.broken_connections(),
        expected.poisoned(),
        started.elapsed().as_secs_f64(),
    );
    fleet.stop().await;
}

/// Victims are chosen in shuffled rounds, so that even a short run hits every process.
async fn kill_at_random_moments(fleet: &mut Fleet, kills: usize, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut pace = interval(TICK);
    let mut round: Vec<usize> = Vec::new();
    for _ in 0..kills {
        for _ in 0..rng.random_range(TICKS_BETWEEN_KILLS) {
            pace.tick().await;
        }
        if round.is_empty() {
            round.extend(0..fleet.size());
            round.shuffle(&mut rng);
        }
        let victim = round.pop().expect("the round has victims");
        fleet.kill_and_replace(victim).await;
    }
}

//! The kill test: processes end without a word at random moments, under load and with duplicates.
//!
//! `ONCEWARD_KILLS` sets how many times (9 without it); `ONCEWARD_SEED` repeats a run's choices.

use crate::support::{
    api::Api,
    bus::{Bus, on_buses},
    check::{Promised, check},
    fleet::example,
    load::Load,
    other_team::OtherTeam,
};
use onceward_testkit::{Fleet, PrivateDatabase, variable};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::time::{Duration, Instant};
use tokio::time::interval;

const KILLS: usize = 9;
const TICK: Duration = Duration::from_millis(10);
/// A process lives for so many ticks at least and at most before the next kill.
const TICKS_BETWEEN_KILLS: std::ops::Range<usize> = 40..240;

on_buses!(killed_processes_lose_nothing_double_nothing_and_keep_the_order);
async fn killed_processes_lose_nothing_double_nothing_and_keep_the_order(bus: Bus) {
    let seed = variable("ONCEWARD_SEED").unwrap_or_else(rand::random);
    let kills = variable("ONCEWARD_KILLS").map_or(KILLS, |kills| usize::try_from(kills).expect("a number of kills"));
    eprintln!("kill test on {}: seed {seed}, {kills} kills", bus.kind.name());
    let began = Instant::now();
    let database = PrivateDatabase::start(&example(), &bus).await;
    let owner = database.owner().await;
    let mut fleet = Fleet::start(&example(), &database, &bus).await;
    let load = Load::start(&Api::of(&fleet), seed);
    let team = OtherTeam::start(database.url(), seed);

    kill_at_random_moments(&mut fleet, kills, seed).await;

    let promised = Promised::collect(load, team).await;
    check(&owner, &promised).await;
    assert!(promised.poisoned() > 0 && promised.seen.replays() > 0, "the load was too small to show anything");
    println!(
        "kill test on {}: {kills} kills, {} orders accepted, {} duplicates answered, {} connections broken, {} poisoned, {:.1} s",
        bus.kind.name(),
        promised.orders().len(),
        promised.seen.replays(),
        promised.seen.broken_connections(),
        promised.poisoned(),
        began.elapsed().as_secs_f64(),
    );
    fleet.stop().await;
}

/// The victims come in shuffled rounds, so that a short run, too, hits every process.
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
        let victim = round.pop().expect("a round was just begun");
        fleet.kill_and_replace(victim).await;
    }
}

//! The plug test: payments at full load, told again and told differently, while plugs are pulled.
//!
//! Workers, relays and the broker are killed in turn; where PostgreSQL is the bus, the database crashes instead.
//! `ONCEWARD_PLUG_S` sets for how long (300 for the long form); `ONCEWARD_SEED` repeats a run's choices.

mod backlog;
mod check;
mod load;
pub mod loans;
pub mod outsider;
pub mod till;

use backlog::Backlog;
use check::{check, check_seen, settle};
use jiff::{Timestamp, tz::TimeZone};
use load::{Load, Seen};
use loans::open_loans;
use onceward::transport::BusKind;
use onceward_testkit::{Bus, Executable, Fleet, PrivateBroker, PrivateDatabase, eventually, left_out, variable};
use outsider::Outsider;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use till::Till;
use tokio::time::interval;

const RABBITMQ_S: u64 = 25;
const POSTGRES_S: u64 = 8;
const TICK: Duration = Duration::from_millis(10);
/// So many ticks lie between one plug and the next.
const TICKS_BETWEEN: std::ops::Range<usize> = 40..200;
/// A server is away for so many ticks at least, and as long as it takes to start.
const TICKS_AWAY: std::ops::Range<usize> = 20..200;
const LOANS: usize = 6;
/// So many payments may wait for each second that the test takes, within bounds.
const BACKLOG_A_SECOND: u64 = 16;
const BACKLOG_MIN: u64 = 100;
const BACKLOG_MAX: u64 = 1_500;
const PAYMENTS_BEFORE: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_is_posted_once_whatever_is_killed_on_rabbitmq() {
    if !left_out("rabbitmq") {
        let broker = PrivateBroker::start(BusKind::RabbitMq).await;
        drill(Some(broker), RABBITMQ_S).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_is_posted_once_whatever_is_killed_on_postgres() {
    drill(None, POSTGRES_S).await;
}

/// The program, with nothing that begins by the clock: it would book interest in the middle of the night.
fn program() -> Executable {
    Executable::at(env!("CARGO_BIN_EXE_onceward")).with("ONCEWARD_LENDING_ACCRUAL_CRON", "0 0 29 2 *")
}

async fn drill(broker: Option<PrivateBroker>, seconds: u64) {
    let seed = variable("ONCEWARD_SEED").unwrap_or_else(rand::random);
    let length = Duration::from_secs(variable("ONCEWARD_PLUG_S").unwrap_or(seconds));
    let bus = broker.as_ref().map_or_else(|| Bus::at(BusKind::Postgres, None), PrivateBroker::bus);
    eprintln!("plug test on {}: seed {seed}, {length:?}", bus.kind.name());
    let database = PrivateDatabase::start(&program(), &bus).await;
    let url = database.url().to_owned();
    let outsider = match bus.is_external() {
        true => Some(Outsider::start(&bus, "payment.posted.v1").await),
        false => None,
    };
    let fleet = Fleet::start(&program(), &database, &bus).await;
    let till = Till::at(fleet.url());
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loans = open_loans(&till, today, LOANS).await;
    let backlog = Backlog::watch(&url, (BACKLOG_A_SECOND * length.as_secs()).clamp(BACKLOG_MIN, BACKLOG_MAX));
    let load = Load::start(&till, &loans, today, &backlog, seed);
    let seen = load.seen.clone();
    some_payments(&seen).await;

    let began = Instant::now();
    let mut wall = Wall { fleet, database, broker, rng: StdRng::seed_from_u64(seed), pulled: BTreeMap::new() };
    while began.elapsed() < length {
        wall.pull_every_plug_once().await;
        some_payments(&seen).await;
    }
    let loaded = began.elapsed();
    let accepted = load.finish().await;
    let ended = Instant::now();

    let owner = wall.database.owner().await;
    settle(&owner, &accepted, outsider.as_ref()).await;
    let settled = ended.elapsed();
    check(&owner, &url, &accepted).await;
    let arrivals = match outsider {
        Some(outsider) => {
            let notes = outsider.finish().await;
            check_seen(&notes, &accepted);
            notes.arrivals
        }
        None => accepted.len() as u64,
    };
    let conflicts = accepted.iter().filter(|accepted| accepted.contradicted).count();
    assert!(seen.duplicates() > 0 && conflicts > 0, "the load was too small to show anything");
    println!(
        "plug test on {}: {} payments accepted in {:.0} s ({:.0} a second), {} duplicates and {conflicts} contradictions \
         answered, {} times without an answer, killed {:?}, {} facts arrived twice, settled {:.1} s after the last payment",
        bus.kind.name(),
        accepted.len(),
        loaded.as_secs_f64(),
        accepted.len() as f64 / loaded.as_secs_f64(),
        seen.duplicates(),
        till.without_answer(),
        wall.pulled,
        arrivals - accepted.len() as u64,
        settled.as_secs_f64(),
    );
    wall.fleet.stop().await;
}

/// Waits until the clients got some more payments accepted.
async fn some_payments(seen: &Seen) {
    let enough = seen.accepted() + PAYMENTS_BEFORE;
    eventually("payments go on being accepted", || async { (seen.accepted() >= enough).then_some(()) }).await;
}

/// Where the plugs are.
struct Wall {
    fleet: Fleet,
    database: PrivateDatabase,
    broker: Option<PrivateBroker>,
    rng: StdRng,
    /// How often each kind was killed.
    pulled: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Copy)]
enum Plug {
    Worker(usize),
    Relay(usize),
    Server,
}

impl Wall {
    async fn pull_every_plug_once(&mut self) {
        let mut plugs: Vec<Plug> = Fleet::WORKERS.map(Plug::Worker).to_vec();
        if self.broker.is_some() {
            plugs.extend(Fleet::RELAYS.map(Plug::Relay));
        }
        plugs.push(Plug::Server);
        plugs.shuffle(&mut self.rng);
        for plug in plugs {
            self.pass(TICKS_BETWEEN).await;
            self.pull(plug).await;
        }
    }

    async fn pull(&mut self, plug: Plug) {
        let what = match (plug, &self.broker) {
            (Plug::Worker(_), _) => "worker",
            (Plug::Relay(_), _) => "relay",
            (Plug::Server, Some(_)) => "broker",
            (Plug::Server, None) => "database",
        };
        *self.pulled.entry(what).or_default() += 1;
        match plug {
            Plug::Worker(number) | Plug::Relay(number) => self.fleet.kill_and_replace(number).await,
            Plug::Server => {
                match &mut self.broker {
                    Some(broker) => broker.kill().await,
                    None => self.database.crash().await,
                }
                self.pass(TICKS_AWAY).await;
                match &mut self.broker {
                    Some(broker) => broker.restart().await,
                    None => self.database.restart().await,
                }
            }
        }
    }

    async fn pass(&mut self, ticks: std::ops::Range<usize>) {
        let mut pace = interval(TICK);
        for _ in 0..self.rng.random_range(ticks) {
            pace.tick().await;
        }
    }
}

//! The payment kill test: payments at full load, repeated and contradicted, while processes and servers are killed.
//!
//! Workers, relays and the broker are killed in turn; where PostgreSQL is the bus, the database crashes instead.
//! `ONCEWARD_PLUG_S` sets for how long (300 for the long form); `ONCEWARD_SEED` repeats a run's choices.

mod check;
pub mod external_consumer;
pub mod lending_client;
mod load;
pub mod loans;
mod posting_backlog;

use check::{check, check_received, wait_until_settled};
use external_consumer::ExternalConsumer;
use jiff::{Timestamp, tz::TimeZone};
use lending_client::LendingClient;
use load::{PaymentCounters, PaymentLoad};
use loans::create_loans;
use onceward::broker::BusKind;
use onceward_testkit::{Bus, Executable, Fleet, PrivateBroker, PrivateDatabase, env_number, eventually, left_out};
use posting_backlog::PostingBacklog;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::interval;

const RABBITMQ_S: u64 = 25;
const POSTGRES_S: u64 = 8;
const TICK: Duration = Duration::from_millis(10);
/// The number of ticks between two kills.
const TICKS_BETWEEN_KILLS: std::ops::Range<usize> = 40..200;
/// The minimum number of ticks for which a server is down, in addition to the time it takes to start.
const TICKS_DOWN: std::ops::Range<usize> = 20..200;
const LOANS: usize = 6;
/// The allowed backlog of payments per second of the test, within bounds.
const BACKLOG_PER_SECOND: u64 = 16;
const BACKLOG_MIN: u64 = 100;
const BACKLOG_MAX: u64 = 1_500;
const PAYMENTS_BEFORE_KILLS: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_is_posted_once_on_rabbitmq_whatever_is_killed() {
    if !left_out("rabbitmq") {
        let broker = PrivateBroker::start(BusKind::RabbitMq).await;
        drill(Some(broker), RABBITMQ_S).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_payment_is_posted_once_on_postgres_whatever_is_killed() {
    drill(None, POSTGRES_S).await;
}

/// Returns the program without scheduled work, which would book interest at midnight.
fn program() -> Executable {
    Executable::at(env!("CARGO_BIN_EXE_onceward"))
        .with("ONCEWARD_LENDING_ACCRUAL_CRON", "0 0 29 2 *")
        .with("ONCEWARD_LENDING_MOCK_PROVIDER", "true")
}

async fn drill(broker: Option<PrivateBroker>, seconds: u64) {
    let seed = env_number("ONCEWARD_SEED").unwrap_or_else(rand::random);
    let length = Duration::from_secs(env_number("ONCEWARD_PLUG_S").unwrap_or(seconds));
    let bus = broker.as_ref().map_or_else(|| Bus::at(BusKind::Postgres, None), PrivateBroker::bus);
    eprintln!("payment kill test on {}: seed {seed}, {length:?}", bus.kind.name());
    let database = PrivateDatabase::start(&program(), &bus).await;
    let url = database.url().to_owned();
    let external_consumer = match bus.is_external() {
        true => Some(ExternalConsumer::start(&bus, "payment.posted.v1").await),
        false => None,
    };
    let fleet = Fleet::start(&program(), &database, &bus).await;
    let lending = LendingClient::new(fleet.url());
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loans = create_loans(&lending, today, LOANS).await;
    let backlog = PostingBacklog::watch(&url, (BACKLOG_PER_SECOND * length.as_secs()).clamp(BACKLOG_MIN, BACKLOG_MAX));
    let load = PaymentLoad::start(&lending, &loans, today, &backlog, seed);
    let counters = load.counters.clone();
    wait_for_payments(&counters).await;

    let began = Instant::now();
    let rng = StdRng::seed_from_u64(seed);
    let mut injector = FaultInjector { fleet, database, broker, rng, kills: BTreeMap::new() };
    while began.elapsed() < length {
        injector.kill_every_target_once().await;
        wait_for_payments(&counters).await;
    }
    let loaded = began.elapsed();
    let accepted = load.finish().await;
    let ended = Instant::now();

    let owner = injector.database.owner().await;
    wait_until_settled(&owner, &accepted, external_consumer.as_ref()).await;
    let settled = ended.elapsed();
    check(&owner, &url, &accepted).await;
    let arrivals = match external_consumer {
        Some(external_consumer) => {
            let received = external_consumer.finish().await;
            check_received(&received, &accepted);
            received.arrivals
        }
        None => accepted.len() as u64,
    };
    let conflicts = accepted.iter().filter(|accepted| accepted.was_contradicted).count();
    assert!(counters.duplicates() > 0 && conflicts > 0, "the load was too small to show anything");
    println!(
        "payment kill test on {}: {} payments accepted in {:.0} s ({:.0} per second), {} duplicates and {conflicts} contradictions \
         sent, {} requests failed, killed {:?}, {} events received twice, settled {:.1} s after the last payment",
        bus.kind.name(),
        accepted.len(),
        loaded.as_secs_f64(),
        accepted.len() as f64 / loaded.as_secs_f64(),
        counters.duplicates(),
        lending.failed_requests(),
        injector.kills,
        arrivals - accepted.len() as u64,
        settled.as_secs_f64(),
    );
    injector.fleet.stop().await;
}

/// Waits until more payments were accepted.
async fn wait_for_payments(counters: &PaymentCounters) {
    let enough = counters.accepted() + PAYMENTS_BEFORE_KILLS;
    eventually("more payments are accepted", || async { (counters.accepted() >= enough).then_some(()) }).await;
}

/// Kills processes and servers, and replaces them.
struct FaultInjector {
    fleet: Fleet,
    database: PrivateDatabase,
    broker: Option<PrivateBroker>,
    rng: StdRng,
    /// How often each kind was killed.
    kills: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Copy)]
enum KillTarget {
    Worker(usize),
    Relay(usize),
    Server,
}

impl FaultInjector {
    async fn kill_every_target_once(&mut self) {
        let mut targets: Vec<KillTarget> = Fleet::WORKERS.map(KillTarget::Worker).to_vec();
        if self.broker.is_some() {
            targets.extend(Fleet::RELAYS.map(KillTarget::Relay));
        }
        targets.push(KillTarget::Server);
        targets.shuffle(&mut self.rng);
        for target in targets {
            self.wait_ticks(TICKS_BETWEEN_KILLS).await;
            self.kill(target).await;
        }
    }

    async fn kill(&mut self, target: KillTarget) {
        let kind = match (target, &self.broker) {
            (KillTarget::Worker(_), _) => "worker",
            (KillTarget::Relay(_), _) => "relay",
            (KillTarget::Server, Some(_)) => "broker",
            (KillTarget::Server, None) => "database",
        };
        *self.kills.entry(kind).or_default() += 1;
        match target {
            KillTarget::Worker(number) | KillTarget::Relay(number) => self.fleet.kill_and_replace(number).await,
            KillTarget::Server => {
                match &mut self.broker {
                    Some(broker) => broker.kill().await,
                    None => self.database.crash().await,
                }
                self.wait_ticks(TICKS_DOWN).await;
                match &mut self.broker {
                    Some(broker) => broker.restart().await,
                    None => self.database.restart().await,
                }
            }
        }
    }

    async fn wait_ticks(&mut self, ticks: std::ops::Range<usize>) {
        let mut pace = interval(TICK);
        for _ in 0..self.rng.random_range(ticks) {
            pace.tick().await;
        }
    }
}

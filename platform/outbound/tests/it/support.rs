//! A destination that can be switched off, and processes that call it.

use onceward_db::{Db, migrate};
use onceward_outbound::{CallError, Destination, MIGRATIONS, Outbound, OutboundError};
use onceward_resilience::{BreakerSettings, BulkheadSettings};
use onceward_supervisor::Supervisor;
use onceward_testkit::TestDb;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub const SMS: &str = "sms";
/// No wait of a test is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause of the breaker, and the least that jitter leaves of it.
pub const PAUSE_MS: u64 = 300;
pub const LEAST_PAUSE_MS: u64 = 270;
pub const PROBE_LIMIT_MS: u64 = 3_000;

pub fn short_pauses() -> BreakerSettings {
    BreakerSettings {
        pause_ms: PAUSE_MS,
        max_pause_ms: 2 * PAUSE_MS,
        probe_limit_ms: PROBE_LIMIT_MS,
        ..BreakerSettings::default()
    }
}

pub fn sms() -> Destination {
    let bulkhead = BulkheadSettings { limit: 8, ..BulkheadSettings::default() };
    Destination::new(SMS).breaker(short_pauses()).bulkhead(bulkhead).timeout(Duration::from_secs(2))
}

pub async fn database() -> TestDb {
    let database = TestDb::empty().await;
    migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the migrations apply");
    database
}

/// A process: its own registry, its own connections, its own task that follows the shared breakers.
pub struct Process {
    pub outbound: Outbound,
    pub db: Db,
    _stop: DropGuard,
}

impl Process {
    pub fn start(database: &TestDb) -> Self {
        Self::start_with(database, sms())
    }

    pub fn start_with(database: &TestDb, destination: Destination) -> Self {
        let mut config = database.config();
        config.pool_size = 3;
        let db = Db::connect(config).expect("the settings are valid");
        let (outbound, stop) = (Outbound::new([destination], Some(db.clone())), CancellationToken::new());
        let (follower, stopped) = (outbound.clone(), stop.clone());
        tokio::spawn(async move { follower.run(&Supervisor::new(), stopped).await });
        Self { outbound, db, _stop: stop.drop_guard() }
    }
}

/// The other system.
#[derive(Default)]
pub struct Receiver {
    pub is_up: AtomicBool,
    pub calls: AtomicUsize,
    pub failures: AtomicUsize,
    pub in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
}

impl Receiver {
    pub async fn answer(&self) -> Result<(), CallError> {
        self.calls.fetch_add(1, SeqCst);
        let in_flight = self.in_flight.fetch_add(1, SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, SeqCst);
        tokio::task::yield_now().await;
        self.in_flight.fetch_sub(1, SeqCst);
        if self.is_up.load(SeqCst) {
            return Ok(());
        }
        self.failures.fetch_add(1, SeqCst);
        Err(CallError::Failed("connection refused".to_owned()))
    }
}

pub async fn send(outbound: &Outbound, receiver: &Receiver) -> Result<(), OutboundError> {
    outbound.call(SMS)?.run(|_| receiver.answer()).await
}

/// Calls again and again, and waits as long as a rejection says, until `stop`.
pub async fn work(outbound: Outbound, receiver: Arc<Receiver>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let pause = match send(&outbound, &receiver).await {
            Err(OutboundError::Rejected(rejected)) => rejected.after,
            _ => Duration::from_millis(1),
        };
        let _ = tokio::time::timeout(pause, stop.cancelled()).await;
    }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let wait = async {
        while !condition().await {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

//! Load: clients that place orders, send duplicates, and retry until they have a definite response.

use super::{
    api::{ApiClient, order_id},
    latency::Latencies,
    processes,
};
use futures_util::future::join_all;
use onceward_testkit::HttpResponse;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
pub const ARTICLES: [&str; 4] = ["teapot", "kettle", "cup", "spoon"];
const CLIENTS: u64 = 8;
const ORDER_INTERVAL: Duration = Duration::from_millis(25);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
const MAX_ORDERS_PER_CLIENT: usize = 20_000;
const MAX_ATTEMPTS: usize = 1_200;
const MAX_COPIES: u32 = 3;

/// An order that the system accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedOrder {
    pub order_id: Uuid,
    pub tenant: String,
    pub sku: String,
    pub quantity: i32,
}

/// Counts of the clients' responses so far.
#[derive(Default)]
pub struct LoadCounters {
    accepted: AtomicU64,
    replays: AtomicU64,
    broken_connections: AtomicU64,
    server_errors: Mutex<BTreeMap<(u16, bool), u64>>,
    latencies: Mutex<Vec<Duration>>,
}

impl LoadCounters {
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of responses that were replayed from stored ones.
    pub fn replays(&self) -> u64 {
        self.replays.load(Ordering::SeqCst)
    }

    pub fn broken_connections(&self) -> u64 {
        self.broken_connections.load(Ordering::SeqCst)
    }

    /// Returns how often each 5xx status was received, with and without a Retry-After.
    pub fn server_errors(&self) -> BTreeMap<(u16, bool), u64> {
        self.server_errors.lock().clone()
    }

    /// Returns the latencies of the requests since the last call.
    pub fn take_latencies(&self) -> Latencies {
        Latencies::new(std::mem::take(&mut *self.latencies.lock()))
    }

    fn record(&self, response: &reqwest::Result<HttpResponse>, latency: Duration) {
        self.latencies.lock().push(latency);
        match response {
            Err(_) => drop(self.broken_connections.fetch_add(1, Ordering::SeqCst)),
            Ok(response) if response.header("idempotency-replayed").is_some() => {
                self.replays.fetch_add(1, Ordering::SeqCst);
            }
            Ok(response) if response.status >= 500 => {
                let kind = (response.status, response.header("retry-after").is_some());
                *self.server_errors.lock().entry(kind).or_default() += 1;
            }
            Ok(_) => {}
        }
    }
}

/// The running clients.
pub struct OrderLoad {
    pub counters: Arc<LoadCounters>,
    stop: CancellationToken,
    clients: JoinSet<Vec<AcceptedOrder>>,
}

impl OrderLoad {
    pub fn start(api: &ApiClient, seed: u64) -> Self {
        let (counters, stop) = (Arc::new(LoadCounters::default()), CancellationToken::new());
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = LoadClient {
                name: format!("client-{number}"),
                api: api.clone(),
                rng: StdRng::seed_from_u64(seed.wrapping_add(number)),
                counters: counters.clone(),
            };
            clients.spawn(client.run(stop.clone()));
        }
        Self { counters, stop, clients }
    }

    /// Lets every client finish its last command; returns the accepted orders of each client, in order.
    pub async fn finish(self) -> Vec<Vec<AcceptedOrder>> {
        self.stop.cancel();
        self.clients.join_all().await
    }
}

struct LoadClient {
    name: String,
    api: ApiClient,
    rng: StdRng,
    counters: Arc<LoadCounters>,
}

impl LoadClient {
    async fn run(mut self, stop: CancellationToken) -> Vec<AcceptedOrder> {
        let mut pace = interval(ORDER_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut accepted = Vec::new();
        for number in 0..MAX_ORDERS_PER_CLIENT {
            pace.tick().await;
            if stop.is_cancelled() {
                break;
            }
            accepted.push(self.place(number).await);
            self.counters.accepted.fetch_add(1, Ordering::SeqCst);
        }
        accepted
    }

    /// Sends one command several times at once; all copies must return the same order.
    async fn place(&mut self, number: usize) -> AcceptedOrder {
        let (tenant, sku, quantity) = random_order(&mut self.rng);
        let key = format!("{}-{number}", self.name);
        let copies = self.rng.random_range(1..=MAX_COPIES);
        let this = &*self;
        let token = processes::token(tenant);
        let ids = join_all((0..copies).map(|_| this.until_definite(&token, &key, sku, quantity))).await;
        assert!(ids.iter().all(|id| *id == ids[0]), "{key} became several orders: {ids:?}");
        AcceptedOrder { order_id: ids[0], tenant: tenant.to_owned(), sku: sku.to_owned(), quantity }
    }

    async fn until_definite(&self, token: &str, key: &str, sku: &str, quantity: i32) -> Uuid {
        let body = json!({"sku": sku, "quantity": quantity});
        let mut pace = interval(RETRY_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..MAX_ATTEMPTS {
            pace.tick().await;
            let started = Instant::now();
            let response = HttpResponse::try_to(self.api.order(token, key, &body)).await;
            self.counters.record(&response, started.elapsed());
            match response {
                Ok(response) if response.status == 202 => {
                    return order_id(&response).parse().expect("an order's id is a UUID");
                }
                // Another copy is in progress, or the server failed: the outcome is not known yet.
                Ok(response) if response.status == 409 || response.status >= 500 => {}
                Ok(response) => panic!("{key} was rejected with {}: {}", response.status, response.text),
                Err(_) => {}
            }
        }
        panic!("{key} had no definite response after {MAX_ATTEMPTS} attempts");
    }
}

/// Returns a random tenant, article and quantity.
pub fn random_order(rng: &mut StdRng) -> (&'static str, &'static str, i32) {
    let tenant = TENANTS[rng.random_range(0..TENANTS.len())];
    let sku = ARTICLES[rng.random_range(0..ARTICLES.len())];
    (tenant, sku, rng.random_range(1..=5))
}

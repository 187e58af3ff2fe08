//! Load: clients that place orders, repeat themselves, and do not give up before they have a definite answer.

use super::{
    api::{Answer, Api, answer},
    fleet,
    lap::Lap,
};
use futures_util::future::join_all;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
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
const ORDER_EVERY: Duration = Duration::from_millis(25);
const RETRY_EVERY: Duration = Duration::from_millis(50);
const MOST_ORDERS_A_CLIENT: usize = 20_000;
const MOST_ATTEMPTS: usize = 1_200;
const MOST_COPIES: u32 = 3;

/// A command that the system said it took on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub order_id: Uuid,
    pub tenant: String,
    pub sku: String,
    pub quantity: i32,
}

/// What the clients have seen so far.
#[derive(Default)]
pub struct Seen {
    accepted: AtomicU64,
    replays: AtomicU64,
    broken_connections: AtomicU64,
    server_errors: Mutex<BTreeMap<(u16, bool), u64>>,
    took: Mutex<Vec<Duration>>,
}

impl Seen {
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Answers that came from the store of finished commands.
    pub fn replays(&self) -> u64 {
        self.replays.load(Ordering::SeqCst)
    }

    pub fn broken_connections(&self) -> u64 {
        self.broken_connections.load(Ordering::SeqCst)
    }

    /// How often each 5xx status was seen, with and without a Retry-After.
    pub fn server_errors(&self) -> BTreeMap<(u16, bool), u64> {
        self.server_errors.lock().expect("no panic while held").clone()
    }

    /// How long requests took since the last lap.
    pub fn lap(&self) -> Lap {
        Lap::of(std::mem::take(&mut *self.took.lock().expect("no panic while held")))
    }

    fn note(&self, answer: &Result<Answer, reqwest::Error>, took: Duration) {
        self.took.lock().expect("no panic while held").push(took);
        match answer {
            Err(_) => drop(self.broken_connections.fetch_add(1, Ordering::SeqCst)),
            Ok(answer) if answer.header("idempotency-replayed").is_some() => {
                self.replays.fetch_add(1, Ordering::SeqCst);
            }
            Ok(answer) if answer.status >= 500 => {
                let kind = (answer.status, answer.header("retry-after").is_some());
                *self.server_errors.lock().expect("no panic while held").entry(kind).or_default() += 1;
            }
            Ok(_) => {}
        }
    }
}

/// Clients at work.
pub struct Load {
    pub seen: Arc<Seen>,
    stop: CancellationToken,
    clients: JoinSet<Vec<Accepted>>,
}

impl Load {
    pub fn start(api: &Api, seed: u64) -> Self {
        let (seen, stop) = (Arc::new(Seen::default()), CancellationToken::new());
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                name: format!("client-{number}"),
                api: api.clone(),
                rng: StdRng::seed_from_u64(seed.wrapping_add(number)),
                seen: seen.clone(),
            };
            clients.spawn(client.run(stop.clone()));
        }
        Self { seen, stop, clients }
    }

    /// Lets every client bring its last command to an end; gives what was accepted, by client, in its order.
    pub async fn finish(self) -> Vec<Vec<Accepted>> {
        self.stop.cancel();
        self.clients.join_all().await
    }
}

struct Client {
    name: String,
    api: Api,
    rng: StdRng,
    seen: Arc<Seen>,
}

impl Client {
    async fn run(mut self, stop: CancellationToken) -> Vec<Accepted> {
        let mut pace = interval(ORDER_EVERY);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut accepted = Vec::new();
        for number in 0..MOST_ORDERS_A_CLIENT {
            pace.tick().await;
            if stop.is_cancelled() {
                break;
            }
            accepted.push(self.place(number).await);
            self.seen.accepted.fetch_add(1, Ordering::SeqCst);
        }
        accepted
    }

    /// Sends one command a few times at once; all copies must be told of the same order.
    async fn place(&mut self, number: usize) -> Accepted {
        let (tenant, sku, quantity) = random_order(&mut self.rng);
        let key = format!("{}-{number}", self.name);
        let copies = self.rng.random_range(1..=MOST_COPIES);
        let this = &*self;
        let token = fleet::token(tenant);
        let ids = join_all((0..copies).map(|_| this.until_definite(&token, &key, sku, quantity))).await;
        assert!(ids.iter().all(|id| *id == ids[0]), "{key} became several orders: {ids:?}");
        Accepted { order_id: ids[0], tenant: tenant.to_owned(), sku: sku.to_owned(), quantity }
    }

    async fn until_definite(&self, token: &str, key: &str, sku: &str, quantity: i32) -> Uuid {
        let body = json!({"sku": sku, "quantity": quantity});
        let mut pace = interval(RETRY_EVERY);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..MOST_ATTEMPTS {
            pace.tick().await;
            let started = Instant::now();
            let answered = answer(self.api.order(token, key, &body)).await;
            self.seen.note(&answered, started.elapsed());
            match answered {
                Ok(answer) if answer.status == 202 => {
                    return answer.order_id().parse().expect("an order's id is a UUID");
                }
                // Another copy is being worked on, or the server is in trouble: the outcome is not known yet.
                Ok(answer) if answer.status == 409 || answer.status >= 500 => {}
                Ok(answer) => panic!("{key} was refused with {}: {}", answer.status, answer.body),
                Err(_) => {}
            }
        }
        panic!("{key} had no definite answer after {MOST_ATTEMPTS} attempts");
    }
}

/// Who orders what, and how much of it.
pub fn random_order(rng: &mut StdRng) -> (&'static str, &'static str, i32) {
    let tenant = TENANTS[rng.random_range(0..TENANTS.len())];
    let sku = ARTICLES[rng.random_range(0..ARTICLES.len())];
    (tenant, sku, rng.random_range(1..=5))
}

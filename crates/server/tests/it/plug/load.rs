//! Payments as fast as they are taken: told several times at once, told again later, and now and then told differently.

use super::{
    backlog::Backlog,
    till::{TENANTS, Till},
};
use futures_util::future::join_all;
use jiff::civil::Date;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const CLIENTS: u64 = 6;
const MOST_ROUNDS_A_CLIENT: usize = 50_000;
const MOST_COPIES: usize = 3;
const AMOUNTS_MINOR: std::ops::Range<i64> = 100..5_000;

/// Who tells of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The gateway, by its transaction.
    Gateway,
    /// The borrower, by an idempotency key.
    Borrower,
}

/// A payment as it is told.
#[derive(Clone, Debug)]
pub struct Payment {
    pub tenant: usize,
    pub door: Door,
    pub loan_id: Uuid,
    /// The gateway's transaction, or the borrower's key.
    pub name: String,
    pub amount: i64,
}

/// A payment that the system said it took on.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub payment_id: Uuid,
    pub payment: Payment,
    /// It was told differently, and that was refused.
    pub contradicted: bool,
}

impl Accepted {
    /// An operator has to hear of it.
    pub fn is_conflict(&self) -> bool {
        self.contradicted && self.payment.door == Door::Gateway
    }
}

/// What was answered so far.
#[derive(Default)]
pub struct Seen {
    pub accepted: AtomicU64,
    pub duplicates: AtomicU64,
}

impl Seen {
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::SeqCst)
    }
}

/// Clients at work.
pub struct Load {
    pub seen: Arc<Seen>,
    stop: CancellationToken,
    clients: JoinSet<Vec<Accepted>>,
}

impl Load {
    pub fn start(till: &Till, loans: &[Uuid], today: Date, backlog: &Backlog, seed: u64) -> Self {
        let (seen, stop) = (Arc::new(Seen::default()), CancellationToken::new());
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                number,
                till: till.clone(),
                loans: loans.to_vec(),
                today,
                rng: StdRng::seed_from_u64(seed.wrapping_add(number)),
                seen: seen.clone(),
            };
            clients.spawn(client.run(stop.clone(), backlog.clone()));
        }
        Self { seen, stop, clients }
    }

    /// Lets every client bring its last payments to an end; gives what was accepted.
    pub async fn finish(self) -> Vec<Accepted> {
        self.stop.cancel();
        self.clients.join_all().await.into_iter().flatten().collect()
    }
}

struct Client {
    number: u64,
    till: Till,
    loans: Vec<Uuid>,
    today: Date,
    rng: StdRng,
    seen: Arc<Seen>,
}

impl Client {
    async fn run(mut self, stop: CancellationToken, backlog: Backlog) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        for round in 0..MOST_ROUNDS_A_CLIENT {
            tokio::select! {
                () = stop.cancelled() => break,
                () = backlog.has_room(&self.seen) => {}
            }
            let payments = self.invent(round);
            let copies = self.rng.random_range(1..=MOST_COPIES);
            accepted.extend(join_all(payments.iter().map(|payment| self.pay(payment, copies))).await);
            let earlier = self.rng.random_range(0..accepted.len());
            match round % 8 {
                1 | 5 => self.repeat(&accepted[earlier]).await,
                3 => self.contradict(&mut accepted[earlier]).await,
                _ => {}
            }
        }
        accepted
    }

    /// The same transaction for the same loan, at both tenants; half of the time also of the same amount.
    fn invent(&mut self, round: usize) -> [Payment; 2] {
        let door = if self.rng.random_range(0..8) == 0 { Door::Borrower } else { Door::Gateway };
        let loan_id = self.loans[self.rng.random_range(0..self.loans.len())];
        let amount = self.rng.random_range(AMOUNTS_MINOR);
        let other = if self.rng.random() { amount } else { self.rng.random_range(AMOUNTS_MINOR) };
        let name = format!("{}-{round}", self.number);
        [(0, amount), (1, other)].map(|(tenant, amount)| Payment { tenant, door, loan_id, name: name.clone(), amount })
    }

    /// Tells of it several times at once; all must be told of the same payment, and one at most that it is the first.
    async fn pay(&self, payment: &Payment, copies: usize) -> Accepted {
        let told = join_all((0..copies).map(|_| self.tell(payment))).await;
        let firsts = told.iter().filter(|(_, first)| *first).count();
        assert!(firsts <= 1 || payment.door == Door::Borrower, "{payment:?} was new {firsts} times");
        let payment_id = told[0].0;
        assert!(told.iter().all(|(id, _)| *id == payment_id), "{payment:?} became several payments: {told:?}");
        self.seen.accepted.fetch_add(1, Ordering::SeqCst);
        self.seen.duplicates.fetch_add(copies as u64 - 1, Ordering::SeqCst);
        Accepted { payment_id, payment: payment.clone(), contradicted: false }
    }

    async fn repeat(&self, known: &Accepted) {
        let (payment_id, first) = self.tell(&known.payment).await;
        assert_eq!(payment_id, known.payment_id, "{:?} became another payment", known.payment);
        assert!(!first || known.payment.door == Door::Borrower, "{:?} was forgotten", known.payment);
        self.seen.duplicates.fetch_add(1, Ordering::SeqCst);
    }

    /// The same transaction with another amount is refused; the same key with another body, too.
    async fn contradict(&self, known: &mut Accepted) {
        let payment = Payment { amount: known.payment.amount + 1, ..known.payment.clone() };
        let answer = self.post(&payment).await;
        let refusal = (answer.0, answer.1["code"].as_str().unwrap_or_default());
        let expected = match payment.door {
            Door::Gateway => (409, "payment-conflict"),
            Door::Borrower => (422, "idempotency-key-reused"),
        };
        assert_eq!(refusal, expected, "{payment:?}: {}", answer.1);
        known.contradicted = true;
    }

    /// The payment's id, and whether it is new.
    async fn tell(&self, payment: &Payment) -> (Uuid, bool) {
        let (status, body) = self.post(payment).await;
        let (id, first) = match (payment.door, status) {
            (Door::Gateway, 201) => (&body["payment_id"], true),
            (Door::Gateway, 200) if body["status"] == "duplicate" => (&body["payment_id"], false),
            (Door::Borrower, 202) => (&body["paymentId"], true),
            _ => panic!("{payment:?} was answered with {status}: {body}"),
        };
        (id.as_str().and_then(|id| id.parse().ok()).expect("a payment has an id"), first)
    }

    async fn post(&self, payment: &Payment) -> (u16, Value) {
        let mut body = json!({
            "loan_id": payment.loan_id, "amount_minor": payment.amount.to_string(), "method": "ach",
            "effective_date": self.today,
        });
        let path = match payment.door {
            Door::Borrower => "/api/payments",
            Door::Gateway => {
                body["txn_id"] = json!(payment.name);
                "/payments/intake/mock"
            }
        };
        let answer = self.till.send(Method::POST, payment.tenant, path, &payment.name, &body).await;
        (answer.status, answer.body)
    }
}

/// What a tenant was promised.
pub fn of_tenant<'a>(accepted: &'a [Accepted], tenant: &str) -> impl Iterator<Item = &'a Accepted> + Clone {
    let number = TENANTS.iter().position(|known| *known == tenant).expect("a tenant of this test");
    accepted.iter().filter(move |accepted| accepted.payment.tenant == number)
}

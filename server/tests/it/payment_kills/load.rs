//! Payments at full speed: sent several times at once, repeated later, and sometimes repeated with different values.

use super::{
    lending_client::{LendingClient, TENANTS},
    posting_backlog::PostingBacklog,
};
use futures_util::future::join_all;
use jiff::civil::Date;
use onceward_testkit::HttpResponse;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const CLIENTS: u64 = 6;
const MAX_ROUNDS_PER_CLIENT: usize = 50_000;
const MAX_COPIES: usize = 3;
const AMOUNTS_MINOR: std::ops::Range<i64> = 100..5_000;

/// How a payment is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentChannel {
    /// The gateway, identified by its transaction.
    Gateway,
    /// The borrower, identified by an idempotency key.
    Borrower,
}

/// A payment as it is sent.
#[derive(Clone, Debug)]
pub struct Payment {
    pub tenant: usize,
    pub channel: PaymentChannel,
    pub loan_id: Uuid,
    /// The gateway's transaction, or the borrower's key.
    pub name: String,
    pub amount: i64,
}

/// A payment that the system accepted.
#[derive(Clone, Debug)]
pub struct AcceptedPayment {
    pub payment_id: Uuid,
    pub payment: Payment,
    /// Whether it was repeated with different values, which was rejected.
    pub was_contradicted: bool,
}

impl AcceptedPayment {
    /// Returns whether it is recorded as a conflict for an operator.
    pub fn is_conflict(&self) -> bool {
        self.was_contradicted && self.payment.channel == PaymentChannel::Gateway
    }
}

/// Counts of the responses so far.
#[derive(Default)]
pub struct PaymentCounters {
    pub accepted: AtomicU64,
    pub duplicates: AtomicU64,
}

impl PaymentCounters {
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::SeqCst)
    }
}

/// The running clients.
pub struct PaymentLoad {
    pub counters: Arc<PaymentCounters>,
    stop: CancellationToken,
    clients: JoinSet<Vec<AcceptedPayment>>,
}

impl PaymentLoad {
    pub fn start(lending: &LendingClient, loans: &[Uuid], today: Date, backlog: &PostingBacklog, seed: u64) -> Self {
        let (counters, stop) = (Arc::new(PaymentCounters::default()), CancellationToken::new());
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                number,
                lending: lending.clone(),
                loans: loans.to_vec(),
                today,
                rng: StdRng::seed_from_u64(seed.wrapping_add(number)),
                counters: counters.clone(),
            };
            clients.spawn(client.run(stop.clone(), backlog.clone()));
        }
        Self { counters, stop, clients }
    }

    /// Lets every client finish its last payments; returns what was accepted.
    pub async fn finish(self) -> Vec<AcceptedPayment> {
        self.stop.cancel();
        self.clients.join_all().await.into_iter().flatten().collect()
    }
}

struct Client {
    number: u64,
    lending: LendingClient,
    loans: Vec<Uuid>,
    today: Date,
    rng: StdRng,
    counters: Arc<PaymentCounters>,
}

impl Client {
    async fn run(mut self, stop: CancellationToken, backlog: PostingBacklog) -> Vec<AcceptedPayment> {
        let mut accepted = Vec::new();
        for round in 0..MAX_ROUNDS_PER_CLIENT {
            tokio::select! {
                () = stop.cancelled() => break,
                () = backlog.wait_for_room(&self.counters) => {}
            }
            let payments = self.random_payments(round);
            let copies = self.rng.random_range(1..=MAX_COPIES);
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

    /// Returns the same transaction for the same loan of both tenants; half of the time also with the same amount.
    fn random_payments(&mut self, round: usize) -> [Payment; 2] {
        let channel = if self.rng.random_range(0..8) == 0 { PaymentChannel::Borrower } else { PaymentChannel::Gateway };
        let loan_id = self.loans[self.rng.random_range(0..self.loans.len())];
        let amount = self.rng.random_range(AMOUNTS_MINOR);
        let other = if self.rng.random() { amount } else { self.rng.random_range(AMOUNTS_MINOR) };
        let name = format!("{}-{round}", self.number);
        [(0, amount), (1, other)].map(|(tenant, amount)| Payment {
            tenant,
            channel,
            loan_id,
            name: name.clone(),
            amount,
        })
    }

    /// Sends a payment several times at once; all must get the same payment, and at most one may be the first.
    async fn pay(&self, payment: &Payment, copies: usize) -> AcceptedPayment {
        let responses = join_all((0..copies).map(|_| self.submit(payment))).await;
        let firsts = responses.iter().filter(|(_, first)| *first).count();
        assert!(firsts <= 1 || payment.channel == PaymentChannel::Borrower, "{payment:?} was new {firsts} times");
        let payment_id = responses[0].0;
        assert!(
            responses.iter().all(|(id, _)| *id == payment_id),
            "{payment:?} became several payments: {responses:?}"
        );
        self.counters.accepted.fetch_add(1, Ordering::SeqCst);
        self.counters.duplicates.fetch_add(copies as u64 - 1, Ordering::SeqCst);
        AcceptedPayment { payment_id, payment: payment.clone(), was_contradicted: false }
    }

    async fn repeat(&self, known: &AcceptedPayment) {
        let (payment_id, first) = self.submit(&known.payment).await;
        assert_eq!(payment_id, known.payment_id, "{:?} became another payment", known.payment);
        assert!(!first || known.payment.channel == PaymentChannel::Borrower, "{:?} was forgotten", known.payment);
        self.counters.duplicates.fetch_add(1, Ordering::SeqCst);
    }

    /// Checks that the same transaction with another amount is rejected, and so is the same key with another body.
    async fn contradict(&self, known: &mut AcceptedPayment) {
        let payment = Payment { amount: known.payment.amount + 1, ..known.payment.clone() };
        let response = self.post(&payment).await;
        let rejection = (response.status, response.body["code"].as_str().unwrap_or_default());
        let expected = match payment.channel {
            PaymentChannel::Gateway => (409, "payment-conflict"),
            PaymentChannel::Borrower => (422, "idempotency-key-reused"),
        };
        assert_eq!(rejection, expected, "{payment:?}: {}", response.body);
        known.was_contradicted = true;
    }

    /// Sends a payment; returns its id and whether it is new.
    async fn submit(&self, payment: &Payment) -> (Uuid, bool) {
        let HttpResponse { status, body, .. } = self.post(payment).await;
        let (id, first) = match (payment.channel, status) {
            (PaymentChannel::Gateway, 201) => (&body["payment_id"], true),
            (PaymentChannel::Gateway, 200) if body["status"] == "duplicate" => (&body["payment_id"], false),
            (PaymentChannel::Borrower, 202) => (&body["payment_id"], true),
            _ => panic!("{payment:?} got the response {status}: {body}"),
        };
        (id.as_str().and_then(|id| id.parse().ok()).expect("a payment has an id"), first)
    }

    async fn post(&self, payment: &Payment) -> HttpResponse {
        let mut body = json!({
            "loan_id": payment.loan_id, "amount_minor": payment.amount.to_string(), "method": "ach",
            "effective_date": self.today,
        });
        let path = match payment.channel {
            PaymentChannel::Borrower => "/api/payments",
            PaymentChannel::Gateway => {
                body["txn_id"] = json!(payment.name);
                "/payments/intake/mock"
            }
        };
        self.lending.send(Method::POST, payment.tenant, path, &payment.name, &body).await
    }
}

/// Returns the accepted payments of a tenant.
pub fn of_tenant<'a>(
    accepted: &'a [AcceptedPayment],
    tenant: &str,
) -> impl Iterator<Item = &'a AcceptedPayment> + Clone {
    let number = TENANTS.iter().position(|known| *known == tenant).expect("a tenant of this test");
    accepted.iter().filter(move |accepted| accepted.payment.tenant == number)
}

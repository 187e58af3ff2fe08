//! A consumer outside the platform: it has a queue of its own on the broker, takes what comes, and knows messages again
//! by their idempotency keys.

use onceward::{
    Exchange, Queue, Topology,
    transport::{Arrival, Broker, Reading, Receiver},
};
use onceward_testkit::Bus;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{task::JoinHandle, time::interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const QUEUE: &str = "outsider.postings";
const AT_ONCE: usize = 200;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What one message said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    pub tenant: String,
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// What was applied, all together.
    pub amount: i64,
}

/// What it has written down.
#[derive(Clone, Default)]
pub struct Notes {
    /// By tenant and idempotency key.
    pub postings: BTreeMap<(String, String), Posting>,
    pub arrivals: u64,
}

impl Notes {
    /// A message that is known already must say what it said before.
    fn note(&mut self, arrival: &Arrival) {
        let message: Value = serde_json::from_slice(&arrival.body).expect("a message is JSON");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {message}")).to_owned();
        let id = |name: &str| text(&message["payload"][name]).parse().expect("an id");
        let parts = message["payload"]["applied"].as_array().expect("a division");
        let amounts = parts.iter().map(|part| text(&part["amount_minor"]).parse::<i64>().expect("digits"));
        let (tenant, key) = (text(&message["tenantId"]), text(&message["idempotencyKey"]));
        let posting = Posting {
            tenant: tenant.clone(),
            payment_id: id("payment_id"),
            loan_id: id("loan_id"),
            amount: amounts.sum(),
        };
        assert_eq!(arrival.header("x-schema"), Some("payment.posted.v1"));
        self.arrivals += 1;
        let known = self.postings.entry((tenant, key)).or_insert_with(|| posting.clone());
        assert_eq!(*known, posting, "a message that came again says something else");
    }
}

pub struct Outsider {
    broker: Arc<dyn Broker>,
    notes: Arc<Mutex<Notes>>,
    stop: CancellationToken,
    work: JoinHandle<()>,
}

impl Outsider {
    /// Makes its queue, bound as `pattern` says, and begins to read.
    pub async fn start(bus: &Bus, pattern: &str) -> Self {
        let topology = Topology::new().exchange(Exchange::topic("payments.events")).queue(Queue::work(QUEUE)).bind(
            "payments.events",
            pattern,
            QUEUE,
        );
        let broker = bus.broker(&topology);
        broker.declare().await.expect("the queue can be made");
        let (notes, stop) = (Arc::<Mutex<Notes>>::default(), CancellationToken::new());
        let work = tokio::spawn(run(broker.clone(), notes.clone(), stop.clone()));
        Self { broker, notes, stop, work }
    }

    /// How many postings it knows of.
    pub fn known(&self) -> usize {
        self.notes.lock().expect("no panic while held").postings.len()
    }

    pub async fn finish(self) -> Notes {
        self.stop.cancel();
        self.work.await.expect("it understood everything");
        self.broker.close().await;
        let notes = self.notes.lock().expect("no panic while held");
        notes.clone()
    }
}

/// A broker that is gone is asked again.
async fn run(broker: Arc<dyn Broker>, notes: Arc<Mutex<Notes>>, stop: CancellationToken) {
    let mut pace = interval(LOOK_EVERY);
    while !stop.is_cancelled() {
        pace.tick().await;
        let reading = Reading { queue: QUEUE.to_owned(), exclusive: false, prefetch: AT_ONCE };
        if let Ok(receiver) = broker.open(reading).await {
            read(receiver, &notes, &stop).await;
        }
    }
}

/// What is written down may be forgotten by the broker.
async fn read(mut receiver: Box<dyn Receiver>, notes: &Mutex<Notes>, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let Ok(arrivals) = receiver.receive(AT_ONCE, LOOK_EVERY).await else { return };
        {
            let mut notes = notes.lock().expect("no panic while held");
            arrivals.iter().for_each(|arrival| notes.note(arrival));
        }
        if receiver.accept().await.is_err() {
            return;
        }
    }
}

//! A consumer outside the platform: it has its own queue on the broker, reads every message, and detects duplicates by
//! their idempotency keys.

use onceward::{
    Exchange, Queue, Topology,
    broker::{Arrival, Broker, ReceiveOptions, Receiver},
};
use onceward_lending::topology::exchanges::PAYMENT_EVENTS;
use onceward_testkit::Bus;
use parking_lot::Mutex;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const QUEUE: &str = "external.postings";
const BATCH_SIZE: usize = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The content of one `payment.posted.v1` message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPosting {
    pub tenant: String,
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    /// The total amount applied.
    pub amount: i64,
}

/// Everything that the consumer has received.
#[derive(Clone, Default)]
pub struct ReceivedPostings {
    /// Distinct postings by tenant and idempotency key.
    pub postings: BTreeMap<(String, String), ReceivedPosting>,
    /// The number of messages, including duplicates.
    pub arrivals: u64,
}

impl ReceivedPostings {
    /// Records a message. A known message must have the same content as before.
    fn record(&mut self, arrival: &Arrival) {
        let message: Value = serde_json::from_slice(&arrival.body).expect("a message is JSON");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {message}")).to_owned();
        let id = |name: &str| text(&message["payload"][name]).parse().expect("an id");
        let parts = message["payload"]["applied"].as_array().expect("a division");
        let amounts = parts.iter().map(|part| text(&part["amount_minor"]).parse::<i64>().expect("digits"));
        let (tenant, key) = (text(&message["tenantId"]), text(&message["idempotencyKey"]));
        let posting = ReceivedPosting {
            tenant: tenant.clone(),
            payment_id: id("payment_id"),
            loan_id: id("loan_id"),
            amount: amounts.sum(),
        };
        assert_eq!(arrival.header("x-schema"), Some("payment.posted.v1"));
        self.arrivals += 1;
        let known = self.postings.entry((tenant, key)).or_insert_with(|| posting.clone());
        assert_eq!(*known, posting, "a duplicate has different content");
    }
}

pub struct ExternalConsumer {
    broker: Arc<dyn Broker>,
    received: Arc<Mutex<ReceivedPostings>>,
    stop: CancellationToken,
    work: JoinHandle<()>,
}

impl ExternalConsumer {
    /// Creates its queue, bound with `pattern`, and starts to read.
    pub async fn start(bus: &Bus, pattern: &str) -> Self {
        let topology = Topology::new().exchange(Exchange::topic(PAYMENT_EVENTS)).queue(Queue::work(QUEUE)).bind(
            PAYMENT_EVENTS,
            pattern,
            QUEUE,
        );
        let broker = bus.broker(&topology);
        broker.declare().await.expect("the queue can be declared");
        let (received, stop) = (Arc::<Mutex<ReceivedPostings>>::default(), CancellationToken::new());
        let work = tokio::spawn(run(broker.clone(), received.clone(), stop.clone()));
        Self { broker, received, stop, work }
    }

    /// Returns the number of distinct postings received so far.
    pub fn posting_count(&self) -> usize {
        self.received.lock().postings.len()
    }

    pub async fn finish(self) -> ReceivedPostings {
        self.stop.cancel();
        self.work.await.expect("every message was understood");
        self.broker.close().await;
        let received = self.received.lock();
        received.clone()
    }
}

/// Reconnects to a broker that is gone.
async fn run(broker: Arc<dyn Broker>, received: Arc<Mutex<ReceivedPostings>>, stop: CancellationToken) {
    let mut pace = interval(POLL_INTERVAL);
    while !stop.is_cancelled() {
        pace.tick().await;
        let reading = ReceiveOptions { queue: QUEUE.to_owned(), exclusive: false, prefetch: BATCH_SIZE };
        if let Ok(receiver) = broker.open(reading).await {
            read(receiver, &received, &stop).await;
        }
    }
}

/// Acknowledges messages only after they are recorded.
async fn read(mut receiver: Box<dyn Receiver>, received: &Mutex<ReceivedPostings>, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let Ok(arrivals) = receiver.receive(BATCH_SIZE, POLL_INTERVAL).await else { return };
        {
            let mut received = received.lock();
            arrivals.iter().for_each(|arrival| received.record(arrival));
        }
        if receiver.accept().await.is_err() {
            return;
        }
    }
}

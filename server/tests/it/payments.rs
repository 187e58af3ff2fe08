//! Loans and payments on RabbitMQ, as other programs on the broker see them.

use crate::payment_kills::{external_consumer::ExternalConsumer, lending_client::LendingClient, loans::create_loans};
use jiff::{Timestamp, tz::TimeZone};
use onceward::{Exchange, Queue, Topology, broker::BusKind};
use onceward_lending::{Settings, service};
use onceward_testkit::{Bus, TestPlatform, eventually, left_out, pending_work, rabbitmq_url};
use reqwest::Method;
use serde_json::{Value, json};

const ACME: usize = 0;

/// Starts lending on RabbitMQ, with every role running.
async fn start_lending() -> (TestPlatform, Bus) {
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let mut platform =
        TestPlatform::on_bus(vec![service(Settings { mock_provider: true, ..Settings::default() })], Some(&url)).await;
    platform.run_relay();
    platform.run_consumers();
    let namespace = platform.config().bus.namespace.clone();
    let bus = Bus { kind: BusKind::RabbitMq, url: Some(url), namespace };
    let broker = platform.broker();
    eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;
    broker.close().await;
    (platform, bus)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posting_is_published_once_and_a_duplicate_payment_publishes_nothing() {
    if left_out("rabbitmq") {
        return;
    }
    let (mut platform, bus) = start_lending().await;
    let external_consumer = ExternalConsumer::start(&bus, "payment.*.*").await;
    let lending = LendingClient::new(platform.serve_http().await);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = create_loans(&lending, today, 1).await[0];
    let pay = async |name: &str, amount: &str| {
        let body = json!({"txn_id": name, "loan_id": loan_id, "amount_minor": amount, "effective_date": today});
        lending.send(Method::POST, ACME, "/payments/intake/mock", name, &body).await
    };
    let wait_for_postings = async |postings: usize| {
        eventually("the posting is received", || async {
            (external_consumer.posting_count() >= postings).then_some(())
        })
        .await;
    };

    let first = pay("t-1", "12000").await;
    assert_eq!(first.status, 201, "{}", first.text);
    wait_for_postings(1).await;
    let again = pay("t-1", "12000").await;
    let known = json!({
        "status": "duplicate", "payment_id": first.body["payment_id"], "idempotency_key": first.body["idempotency_key"]
    });
    assert_eq!((again.status, &again.body), (200, &known));
    // The loan's next payment comes after anything that the duplicate may have caused.
    assert_eq!(pay("t-2", "700").await.status, 201);
    wait_for_postings(2).await;
    let owner = platform.database().owner().await;
    eventually("everything is handled", || async { pending_work(&owner).await.is_empty().then_some(()) }).await;

    let received = external_consumer.finish().await;
    let amounts: Vec<i64> = received.postings.values().map(|posting| posting.amount).collect();
    assert_eq!((received.arrivals, received.postings.len(), amounts.iter().sum::<i64>()), (2, 2, 12_700));
    let ledger = lending.get(ACME, &format!("/api/loans/{loan_id}/ledger?limit=500")).await.body;
    let payments: Vec<&Value> = ledger["events"]
        .as_array()
        .expect("a history")
        .iter()
        .filter(|event| event["schema"] == "posting.payment.v1")
        .collect();
    assert_eq!(payments.len(), 2, "{ledger}");
    assert_eq!(ledger["balances"]["cash_minor"], "12700");
    let received_events = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'payment.received.v1'";
    assert_eq!(owner.query_one(received_events, &[]).await.expect("a count").get::<_, i64>(0), 2);
    assert!(platform.stop().await.0, "it stops in time");
}

/// Queue, exchange and pattern, fixed for compatibility with existing consumers.
const QUEUES: [(&str, &str, &str); 8] = [
    ("loan.create.v1", "ls.commands", "tenant.*.loan.create"),
    ("loan.update.v1", "ls.commands", "tenant.*.loan.update"),
    ("payment.process.v1", "ls.commands", "tenant.*.payment.process"),
    ("payment.allocate.v1", "ls.commands", "tenant.*.payment.allocate"),
    ("escrow.disburse.v1", "ls.commands", "tenant.*.escrow.disburse"),
    ("etl.schedule.v1", "ls.schedules", "tenant.*.etl.schedule"),
    ("etl.job.v1", "ls.commands", "tenant.*.etl.job"),
    ("status.update.v1", "ls.events", "tenant.*.status.#"),
];

/// The topology of the loan queues, with this dead-letter exchange.
fn loan_topology(dead_letter_exchange: &str) -> Topology {
    let topology = Topology::new()
        .exchange(Exchange::topic("ls.commands"))
        .exchange(Exchange::topic("ls.events"))
        .exchange(Exchange::topic("ls.schedules"))
        .exchange(Exchange::fanout("ls.dlq"))
        .queue(Queue::dead_letter_store("ls.dlq.v1"));
    QUEUES
        .iter()
        .fold(topology, |topology, (queue, _, _)| topology.queue(Queue::work(*queue).dead_letter(dead_letter_exchange)))
}

/// The dead-letter queue itself has no dead-letter exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_broker_has_the_queues_of_loans_with_the_declared_arguments() {
    if left_out("rabbitmq") {
        return;
    }
    let (platform, bus) = start_lending().await;
    let declared = platform.platform().topology();
    for (queue, exchange, pattern) in QUEUES {
        let bound = declared
            .bindings
            .iter()
            .any(|binding| (&*binding.queue, &*binding.exchange, &*binding.pattern) == (queue, exchange, pattern));
        assert!(bound, "{queue} is not bound to {exchange} by {pattern}");
    }
    let broker = bus.broker(&loan_topology("ls.dlq"));
    assert_eq!(broker.check().await.expect("the broker responds"), []);
    broker.close().await;
    let broker = bus.broker(&loan_topology("ls.events"));
    let differing = broker.check().await.expect("the broker responds");
    assert_eq!(differing.len(), QUEUES.len(), "every queue differs: {differing:?}");
    broker.close().await;
    assert!(platform.stop().await.0, "it stops in time");
}

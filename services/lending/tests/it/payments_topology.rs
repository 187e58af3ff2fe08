//! The pipeline's queues on RabbitMQ, with the arguments that the broker reports.

use crate::payments_support::today;
use crate::support::LendingFixture;
use onceward::{Exchange, Platform, Queue, Service, Topology, broker::ReceiveOptions, outbox};
use onceward_lending::{Settings, payments::events::PaymentValidated, service, topology::topology};
use onceward_money::{Currency, Minor};
use onceward_testkit::{TestPlatform, eventually, left_out, rabbitmq_url};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::sync::Mutex;
use uuid::Uuid;

const WORK: [&str; 5] =
    ["q.payments.intake", "q.payments.received", "q.payments.validated", "q.payments.post", "q.payments.events.audit"];

#[test]
fn messages_go_to_their_published_topics() {
    let topology = topology();
    for (exchange, key, queues) in [
        ("payments.inbound", "received.raw", vec!["q.payments.intake"]),
        ("payments.validation", "received.v1", vec!["q.payments.received"]),
        ("payments.saga", "validated.v1", vec!["q.payments.validated"]),
        ("payments.saga", "post.v1", vec!["q.payments.post"]),
        ("payments.events", "payment.posted.v1", vec!["q.payments.events.audit"]),
        ("payments.events", "payment.failed.v1", vec!["q.payments.events.audit"]),
        ("payments.dlq", "#", vec!["q.payments.dlq"]),
        ("ls.commands", "tenant.acme.payment.process", vec!["payment.process.v1"]),
        ("ls.commands", "tenant.acme.payment.allocate", vec!["payment.allocate.v1"]),
    ] {
        assert_eq!(topology.route(exchange, key).expect("the exchange is declared"), queues, "{exchange} {key}");
    }
    for (name, kind) in [
        ("payments.inbound", "direct"),
        ("payments.validation", "topic"),
        ("payments.saga", "topic"),
        ("payments.events", "topic"),
        ("payments.dlq", "direct"),
    ] {
        let exchange = topology.exchanges.iter().find(|exchange| exchange.name == name).expect("it is declared");
        assert_eq!(exchange.kind.as_str(), kind, "{name}");
    }
}

/// The same names without arguments, so that the broker reports every difference.
fn bare() -> Topology {
    let declared = topology();
    let exchanges = declared.exchanges.iter().filter(|exchange| exchange.name.starts_with("payments."));
    let bare = exchanges.fold(Topology::new(), |bare, exchange| bare.exchange(Exchange { ..exchange.clone() }));
    WORK.into_iter().chain(["q.payments.dlq"]).fold(bare, |bare, queue| bare.queue(Queue::work(queue)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_have_the_declared_arguments_when_read_back_from_the_broker() {
    if left_out("rabbitmq") {
        return;
    }
    let mut fixture = TestPlatform::on_bus(vec![service(Settings::default())], Some(&rabbitmq_url())).await;
    fixture.run_relay();
    fixture.run_consumers();
    let broker = fixture.broker();
    broker.declare().await.expect("it can be declared");
    assert_eq!(broker.check().await.expect("it can be checked"), []);

    let platform = Platform::assemble(vec![Service::new("bare").topology(bare())]).expect("it fits");
    let asking = onceward::connect::connect(fixture.config(), platform.topology()).expect("a valid configuration");
    let differences = asking.expect("an external bus").check().await.expect("it can be checked");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for difference in differences {
        let namespace = &fixture.config().bus.namespace;
        let text = |text: &str| text.replace(namespace, "");
        found.entry(text(&difference.what)).or_default().push(text(&difference.found));
    }
    found.values_mut().for_each(|arguments| arguments.sort());
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for queue in WORK {
        let arguments = ["x-dead-letter-exchange=payments.dlq", "x-dead-letter-routing-key=#", "x-delivery-limit=6"];
        expected.insert(format!("queue {queue}"), arguments.map(str::to_owned).to_vec());
    }
    expected.insert("queue q.payments.dlq".to_owned(), vec!["x-message-ttl=604800000".to_owned()]);
    assert_eq!(found, expected, "all are quorum queues, which is not reported because it does not differ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_of_the_pipeline_reaches_the_queue_behind_payments_dlq() {
    if left_out("rabbitmq") {
        return;
    }
    let fixture = LendingFixture::start_on(Some(&rabbitmq_url())).await;
    let client = fixture.client("acme");
    let unknown = PaymentValidated {
        payment_id: Uuid::now_v7(),
        loan_id: Uuid::now_v7(),
        amount_minor: Minor::new(1),
        currency: Currency::USD,
        effective_date: today(),
        allocation_hints: serde_json::Map::new(),
    };
    let mut tx = client.begin().await;
    outbox::publish(&mut tx, &unknown).await.expect("the message is accepted");
    tx.commit().await.expect("the commit succeeds");

    let broker = fixture.platform.broker();
    let reading = ReceiveOptions { queue: "q.payments.dlq".to_owned(), exclusive: true, prefetch: 1 };
    let receiver = Mutex::new(broker.open(reading).await.expect("the queue can be read"));
    let copy = eventually("the copy is in the queue", || async {
        let received = receiver.lock().await.receive(1, Duration::from_secs(1)).await;
        received.expect("the queue can be read").pop()
    })
    .await;
    let body: Value = serde_json::from_slice(&copy.body).expect("an envelope");
    assert_eq!(body["payload"]["payment_id"], json!(unknown.payment_id));
    assert_eq!(body["deadLetter"]["queue"], "q.payments.validated");
    let dead = "SELECT count(*) FROM onceward.dead_letters WHERE queue = 'q.payments.validated'";
    assert_eq!(fixture.query_value::<i64>(dead, &[]).await, 1, "the dead letter itself is in the database");
}

//! The pipeline's queues on RabbitMQ, with the arguments that the broker says they have.

use onceward::{Exchange, Platform, Queue, Service, Topology};
use onceward_lending::{Settings, service, topology::topology};
use onceward_testkit::{TestPlatform, left_out, rabbitmq_url};
use std::collections::BTreeMap;

const WORK: [&str; 5] =
    ["q.payments.intake", "q.payments.received", "q.payments.validated", "q.payments.post", "q.payments.events.audit"];

#[test]
fn messages_go_where_the_specification_sends_them() {
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
        assert_eq!(topology.route(exchange, key).expect("the exchange is there"), queues, "{exchange} {key}");
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

/// The same names with nothing said about them, so that the broker names everything that is.
fn bare() -> Topology {
    let declared = topology();
    let exchanges = declared.exchanges.iter().filter(|exchange| exchange.name.starts_with("payments."));
    let bare = exchanges.fold(Topology::new(), |bare, exchange| bare.exchange(Exchange { ..exchange.clone() }));
    WORK.into_iter().chain(["q.payments.dlq"]).fold(bare, |bare, queue| bare.queue(Queue::work(queue)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_have_the_arguments_of_the_specification_read_back_from_the_broker() {
    if left_out("rabbitmq") {
        return;
    }
    let mut office = TestPlatform::on_bus(vec![service(Settings::default())], Some(&rabbitmq_url())).await;
    office.run_relay();
    office.run_consumers();
    let broker = office.broker();
    broker.declare().await.expect("it can be declared");
    assert_eq!(broker.check().await.expect("it can be checked"), []);

    let platform = Platform::assemble(vec![Service::new("bare").topology(bare())]).expect("it fits");
    let asking = onceward::broker::connect(office.config(), platform.topology()).expect("a valid configuration");
    let differences = asking.expect("an external bus").check().await.expect("it can be checked");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for difference in differences {
        let namespace = &office.config().bus.namespace;
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
    assert_eq!(found, expected, "and all are quorum queues, which is not told because it does not differ");
}

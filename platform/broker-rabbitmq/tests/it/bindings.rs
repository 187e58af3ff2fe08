//! Missing and undeclared bindings are found through the management API.

use crate::support::{AmqpClient, declared, one_queue, server_url, unique};
use lapin::{options::QueueBindOptions, types::FieldTable};
use onceward_broker::{Address, Broker, BrokerConfig, TopologyDifference};
use onceward_broker_rabbitmq::RabbitMqBroker;
use onceward_local_brokers::{LocalBroker as _, RabbitMq, RabbitMqPrograms};
use onceward_testkit::eventually;
use onceward_topology::Topology;

/// A private node with the management API.
async fn managed_server() -> RabbitMq {
    let start = || RabbitMqPrograms::find().and_then(|programs| RabbitMq::temporary(&programs.with_management()));
    tokio::task::spawn_blocking(start).await.expect("the task does not panic").expect("RabbitMQ starts")
}

fn broker(server: &RabbitMq, topology: &Topology) -> RabbitMqBroker {
    let management_url = server.management_url().expect("the server has a management API");
    let config = BrokerConfig { management_url, ..BrokerConfig::new(Address::Url(server.url())) };
    RabbitMqBroker::new(config, topology.clone())
}

fn summaries(differences: &[TopologyDifference]) -> Vec<(&str, &str, &str)> {
    differences.iter().map(|one| (one.what.as_str(), one.declared.as_str(), one.found.as_str())).collect()
}

/// The API shows a change made over AMQP only a moment later.
async fn eventually_differs(broker: &RabbitMqBroker, wanted: &[(&str, &str, &str)]) {
    eventually("the differences are reported", || async {
        let differences = broker.check().await.ok()?;
        (summaries(&differences) == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_and_an_undeclared_binding_are_differences() {
    let server = managed_server().await;
    let broker = broker(&server, &one_queue("q"));
    broker.declare().await.expect("the topology can be declared");
    eventually_differs(&broker, &[]).await;
    assert_eq!(broker.unchecked().await.expect("the broker responds"), [""; 0]);

    let client = AmqpClient::connect(&server.url()).await;
    let (queue, exchange) = ("q", "q.events");
    let channel = client.channel().await;
    channel
        .queue_unbind(queue.into(), exchange.into(), "#".into(), FieldTable::default())
        .await
        .expect("the queue can be unbound");
    let binding = format!("binding {exchange} -> q");
    eventually_differs(&broker, &[(&binding, "with \"#\"", "nothing")]).await;
    broker.declare().await.expect("the topology can be declared again");
    eventually_differs(&broker, &[]).await;

    let options = QueueBindOptions::default();
    channel
        .queue_bind(queue.into(), exchange.into(), "extra.*".into(), options, FieldTable::default())
        .await
        .expect("the queue can be bound");
    eventually_differs(&broker, &[(&binding, "nothing", "with \"extra.*\"")]).await;
    broker.close().await;
}

/// The shared server has no management API.
#[tokio::test(flavor = "multi_thread")]
async fn bindings_that_cannot_be_compared_are_reported_as_unchecked() {
    let queue = unique("unchecked");
    let broker = declared(&one_queue(&queue)).await;
    assert_eq!(broker.check().await.expect("the broker responds"), []);
    let unchecked = broker.unchecked().await.expect("the broker responds");
    assert!(matches!(&unchecked[..], [only] if only.contains("bus.management_url")), "{unchecked:?}");
    // A configured API that does not respond is an error, not a reason to skip the comparison.
    let management_url = "http://127.0.0.1:1".to_owned();
    let config = BrokerConfig { management_url, ..BrokerConfig::new(Address::Url(server_url().await)) };
    let named = RabbitMqBroker::new(config, one_queue(&queue));
    assert!(named.check().await.is_err_and(|error| error.to_string().contains("bus.management_url")));
    broker.close().await;
    named.close().await;
}

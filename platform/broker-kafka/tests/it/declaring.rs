//! Declaring and checking the topology.

use crate::{
    mock,
    support::{
        broker, create_topic, declared, events, numbered_parcels, one_queue, server_url, short_timeouts, unique,
    },
};
use onceward_broker::{Address, Broker, BrokerConfig, BrokerError, ReceiveOptions};
use onceward_broker_kafka::KafkaBroker;
use onceward_topology::{Exchange, Queue, Topology};
use rdkafka::producer::{BaseProducer, Producer};
use std::time::Duration;

fn with_partitions(name: &str, partitions: u16) -> Topology {
    Topology::new().exchange(Exchange::topic(events(name)).partitions(partitions)).queue(Queue::work(name)).bind(
        events(name),
        "#",
        name,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_has_the_declared_partitions_and_keeps_them() {
    if mock::must_skip("the mock creates no topics and returns no settings") {
        return;
    }
    let name = unique("parts");
    let three = declared(&with_partitions(&name, 3)).await;
    assert_eq!(three.check().await.expect("the broker responds"), []);
    let found = |advice: &'static str, declared: u16| {
        let name = name.clone();
        async move {
            let other = broker(&server_url().await, &with_partitions(&name, declared));
            assert_eq!(other.declare().await.expect("the broker responds"), [""; 0], "it was changed");
            let differences = other.check().await.expect("the broker responds");
            let [difference] = &differences[..] else { panic!("{differences:?}") };
            assert_eq!(difference.what, format!("exchange {}", events(&name)));
            assert_eq!(
                (difference.declared.as_str(), difference.found.as_str()),
                (&*format!("{declared} partitions"), "3")
            );
            assert!(difference.advice.contains(advice), "{}", difference.advice);
        }
    };
    found("moves keys", 5).await;
    found("cannot be removed", 2).await;
    let producer: BaseProducer = crate::support::client(&server_url().await).create().expect("a client");
    let metadata =
        producer.client().fetch_metadata(Some(&events(&name)), Duration::from_secs(10)).expect("the broker responds");
    assert_eq!(metadata.topics()[0].partitions().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsafe_topic_settings_are_differences_and_short_retention_is_advised_against() {
    if mock::must_skip("the mock returns no settings") {
        return;
    }
    let (name, url) = (unique("unsafe"), server_url().await);
    create_topic(&url, &events(&name), 8, &[("cleanup.policy", "compact"), ("retention.ms", "3600000")]).await;
    let broker = declared(&one_queue(&name)).await;
    let differences = broker.check().await.expect("the broker responds");
    let declared: Vec<&str> = differences.iter().map(|difference| difference.declared.as_str()).collect();
    assert_eq!(declared, ["max.message.bytes of 17825792", "cleanup.policy delete"], "{differences:?}");
    let advice = broker.advise().await.expect("the broker responds");
    assert!(
        advice.iter().any(|sentence| sentence.contains("retention.ms") && sentence.contains(&events(&name))),
        "{advice:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_with_an_invalid_topic_name_is_reported() {
    let topology = Topology::new().exchange(Exchange::topic("größe"));
    let error = broker(&server_url().await, &topology).declare().await.expect_err("it was declared");
    assert!(
        matches!(&error, BrokerError::Misconfigured(why) if why.contains("größe") && why.contains("letters")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_queue_cannot_be_opened() {
    let name = unique("undeclared");
    let broker = declared(&one_queue(&name)).await;
    let reading = ReceiveOptions { queue: unique("other"), exclusive: true, prefetch: 1 };
    let other = reading.queue.clone();
    match broker.open(reading).await.err() {
        Some(BrokerError::Missing(what)) => assert!(what.contains(&other), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// No message can arrive, and that is not an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_binding_is_empty() {
    let name = unique("unbound");
    let broker = declared(&Topology::new().queue(Queue::work(&name))).await;
    let mut receiver = crate::support::open(&broker, &name).await;
    assert_eq!(receiver.receive(1, Duration::from_millis(50)).await.expect("the queue can be read"), []);
    assert_eq!(broker.waiting(&name).await.expect("the broker responds"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_url_is_a_configuration_error_without_the_password() {
    let config = BrokerConfig::new(Address::Url("kafka://user:hidden@localhost:1?sasl=magic".to_owned()));
    let broker = KafkaBroker::new(config, one_queue("any"));
    let error = broker.ping().await.expect_err("it was accepted");
    assert!(matches!(&error, BrokerError::Misconfigured(why) if why.contains("sasl")), "{error:?}");
    assert!(!format!("{error:?}").contains("hidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_explain_why_a_server_cannot_be_reached() {
    let unused =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let broker = KafkaBroker::new(short_timeouts(&format!("kafka://{unused}")), one_queue("any"));
    let reading = ReceiveOptions { queue: "any".to_owned(), exclusive: true, prefetch: 1 };
    let errors = [
        broker.ping().await.err(),
        broker.publish(numbered_parcels("any", [1])).await.err(),
        broker.open(reading).await.err(),
    ];
    for error in errors {
        assert!(matches!(&error, Some(BrokerError::Unavailable(why)) if why.contains("refused")), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_names_the_settings_of_a_topic_that_may_lose_messages() {
    if mock::must_skip("the mock creates no topics and returns no settings") {
        return;
    }
    let (name, url) = (unique("advice"), server_url().await);
    create_topic(&url, &events(&name), 1, &[("retention.bytes", "1000"), ("retention.ms", "3600000")]).await;
    let advice = broker(&url, &one_queue(&name)).advise().await.expect("the broker responds");
    for setting in ["retention.bytes", "retention.ms"] {
        let named = |sentence: &&String| sentence.contains(setting) && sentence.contains(&events(&name));
        assert!(advice.iter().any(|sentence| named(&sentence)), "{setting}: {advice:?}");
    }
}

//! Declaring, and telling what differs.

use crate::{
    mock,
    support::{broker, declared, events, impatient, make_topic, numbers, server_url, simple, unique},
};
use onceward_topology::{Exchange, Queue, Topology};
use onceward_transport::{Address, Broker, BrokerConfig, BrokerError, Reading};
use onceward_transport_kafka::KafkaBroker;
use rdkafka::producer::{BaseProducer, Producer};
use std::time::Duration;

fn sized(name: &str, partitions: u16) -> Topology {
    Topology::new().exchange(Exchange::topic(events(name)).partitions(partitions)).queue(Queue::work(name)).bind(
        events(name),
        "#",
        name,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_has_the_declared_partitions_and_keeps_them() {
    if mock::leaves_out("it makes no topics and tells no settings") {
        return;
    }
    let name = unique("parts");
    let three = declared(&sized(&name, 3)).await;
    assert_eq!(three.check().await.expect("it answers"), []);
    let found = |advice: &'static str, declared: u16| {
        let name = name.clone();
        async move {
            let other = broker(&server_url().await, &sized(&name, declared));
            assert_eq!(other.declare().await.expect("it answers"), [""; 0], "it was changed");
            let differences = other.check().await.expect("it answers");
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
    found("cannot be taken away", 2).await;
    let producer: BaseProducer = crate::support::client(&server_url().await).create().expect("a client");
    let metadata = producer.client().fetch_metadata(Some(&events(&name)), Duration::from_secs(10)).expect("it answers");
    assert_eq!(metadata.topics()[0].partitions().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_messages_are_differences_and_short_retention_is_advised_against() {
    if mock::leaves_out("it tells no settings") {
        return;
    }
    let (name, url) = (unique("unsafe"), server_url().await);
    make_topic(&url, &events(&name), 8, &[("cleanup.policy", "compact"), ("retention.ms", "3600000")]).await;
    let broker = declared(&simple(&name)).await;
    let differences = broker.check().await.expect("it answers");
    let declared: Vec<&str> = differences.iter().map(|difference| difference.declared.as_str()).collect();
    assert_eq!(declared, ["max.message.bytes of 17825792", "cleanup.policy delete"], "{differences:?}");
    let advice = broker.advise().await.expect("it answers");
    assert!(
        advice.iter().any(|sentence| sentence.contains("retention.ms") && sentence.contains(&events(&name))),
        "{advice:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_cannot_be_a_topic_is_named() {
    let topology = Topology::new().exchange(Exchange::topic("größe"));
    let error = broker(&server_url().await, &topology).declare().await.expect_err("it was declared");
    assert!(
        matches!(&error, BrokerError::Misconfigured(why) if why.contains("größe") && why.contains("letters")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_nobody_declared_cannot_be_opened() {
    let name = unique("undeclared");
    let broker = declared(&simple(&name)).await;
    let reading = Reading { queue: unique("other"), exclusive: true, prefetch: 1 };
    let other = reading.queue.clone();
    match broker.open(reading).await.err() {
        Some(BrokerError::Missing(what)) => assert!(what.contains(&other), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// Nothing can come, and that is no error.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_binding_is_empty() {
    let name = unique("unbound");
    let broker = declared(&Topology::new().queue(Queue::work(&name))).await;
    let mut receiver = crate::support::open(&broker, &name).await;
    assert_eq!(receiver.receive(1, Duration::from_millis(50)).await.expect("it can be read"), []);
    assert_eq!(broker.waiting(&name).await.expect("it answers"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_url_is_a_wrong_setting_and_shows_no_password() {
    let config = BrokerConfig::new(Address::Url("kafka://user:hidden@localhost:1?sasl=magic".to_owned()));
    let broker = KafkaBroker::new(config, simple("any"));
    let error = broker.ping().await.expect_err("it was accepted");
    assert!(matches!(&error, BrokerError::Misconfigured(why) if why.contains("sasl")), "{error:?}");
    assert!(!format!("{error:?}").contains("hidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_why_a_server_cannot_be_reached() {
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let broker = KafkaBroker::new(impatient(&format!("kafka://{nobody}")), simple("any"));
    let reading = Reading { queue: "any".to_owned(), exclusive: true, prefetch: 1 };
    let errors =
        [broker.ping().await.err(), broker.publish(numbers("any", [1])).await.err(), broker.open(reading).await.err()];
    for error in errors {
        assert!(matches!(&error, Some(BrokerError::Unavailable(why)) if why.contains("refused")), "{error:?}");
    }
}

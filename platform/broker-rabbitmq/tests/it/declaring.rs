//! Queues and exchanges have the declared arguments, and differences are reported.

use crate::support::{AmqpClient, broker, declared, longstr, one_queue, server_url, unique};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use onceward_broker::{Broker, BrokerError, TopologyDifference};
use onceward_topology::{Exchange, Queue, Topology};

const WEEK_MS: i64 = 604_800_000;

/// A work queue and its dead-letter queue, as the payments pipeline has them.
fn payments(tag: &str) -> Topology {
    let [events, dlq] = ["events", "dlq"].map(|name| format!("{tag}.{name}"));
    let [work, dead] = ["q.post", "q.dlq"].map(|name| format!("{tag}.{name}"));
    Topology::new()
        .exchange(Exchange::topic(&events))
        .exchange(Exchange::direct(&dlq))
        .queue(Queue::work(&work).delivery_limit(6).dead_letter_as(&dlq, "#").max_priority(9))
        .queue(Queue::dead_letter_store(&dead).ttl_ms(WEEK_MS as u64))
        .bind(&events, "post.v1", &work)
        .bind(&dlq, "#", &dead)
}

/// `(declared, found)` of each difference.
fn pairs(differences: &[TopologyDifference]) -> Vec<(&str, &str)> {
    differences.iter().map(|difference| (difference.declared.as_str(), difference.found.as_str())).collect()
}

#[tokio::test]
async fn queues_have_exactly_the_arguments_of_the_topology() {
    let tag = unique("exact");
    declared(&payments(&tag)).await;
    let client = AmqpClient::connect(&server_url().await).await;
    let (work, dead, dlq) = (format!("{tag}.q.post"), format!("{tag}.q.dlq"), format!("{tag}.dlq"));
    let quorum = ("x-queue-type", longstr("quorum"));
    let mut of_work = vec![
        quorum.clone(),
        ("x-delivery-limit", AMQPValue::LongInt(6)),
        ("x-dead-letter-exchange", longstr(&dlq)),
        ("x-dead-letter-routing-key", longstr("#")),
    ];
    assert_eq!(client.declare(&work, &of_work).await, Ok(()));
    of_work.push(("x-message-ttl", AMQPValue::LongLongInt(WEEK_MS)));
    assert!(client.declare(&work, &of_work).await.unwrap_err().contains("x-message-ttl"));

    let mut of_dead = vec![quorum, ("x-message-ttl", AMQPValue::LongLongInt(WEEK_MS))];
    assert_eq!(client.declare(&dead, &of_dead).await, Ok(()));
    of_dead.push(("x-delivery-limit", AMQPValue::LongInt(6)));
    assert!(client.declare(&dead, &of_dead).await.unwrap_err().contains("x-delivery-limit"));
}

#[tokio::test]
async fn declaring_returns_what_it_created() {
    let tag = unique("created");
    let broker = broker(&server_url().await, &payments(&tag));
    let created = broker.declare().await.expect("the topology can be declared");
    for what in [
        format!("exchange {tag}.events"),
        format!("queue {tag}.q.dlq"),
        format!("binding {tag}.dlq -> {tag}.q.dlq (#)"),
    ] {
        assert!(created.contains(&what), "{what} is not among {created:?}");
    }
    assert_eq!(broker.declare().await.expect("the topology can be declared"), Vec::<String>::new());
    assert_eq!(broker.check().await.expect("the topology can be checked"), []);
}

#[tokio::test]
async fn every_differing_argument_is_reported_with_both_values_and_left_unchanged() {
    let tag = unique("differs");
    let (work, dead) = (format!("{tag}.q.post"), format!("{tag}.q.dlq"));
    let client = AmqpClient::connect(&server_url().await).await;
    let existing = [
        ("x-queue-type", longstr("quorum")),
        ("x-delivery-limit", AMQPValue::LongInt(7)),
        ("x-dead-letter-exchange", longstr("it's another")),
        ("x-max-length", AMQPValue::LongInt(1000)),
    ];
    client.declare(&work, &existing).await.expect("the name is unused");
    let broker = broker(&server_url().await, &payments(&tag));

    let error = broker.declare().await.expect_err("the queue differs").to_string();
    for word in [&work, "x-delivery-limit=6", "x-delivery-limit=7", "Nothing was deleted"] {
        assert!(error.contains(word), "{word:?} is not in {error}");
    }
    let differences = broker.check().await.expect("the topology can be checked");
    assert!(differences.iter().all(|difference| difference.what == format!("queue {work}")), "{differences:?}");
    let mut pairs = pairs(&differences);
    pairs.sort_unstable();
    let exchange = format!("x-dead-letter-exchange={tag}.dlq");
    assert_eq!(
        pairs,
        [
            (exchange.as_str(), "x-dead-letter-exchange=it's another"),
            ("x-dead-letter-routing-key=#", "x-dead-letter-routing-key=none"),
            ("x-delivery-limit=6", "x-delivery-limit=7"),
            ("x-max-length=none", "x-max-length=1000"),
        ]
    );
    assert_eq!(client.declare(&work, &existing).await, Ok(()), "it is as it was");
    assert!(broker.waiting(&dead).await.is_ok(), "the rest is declared");
}

#[tokio::test]
async fn a_queue_of_another_type_is_reported() {
    let queue = unique("classic");
    let client = AmqpClient::connect(&server_url().await).await;
    let options = QueueDeclareOptions { auto_delete: true, ..QueueDeclareOptions::default() };
    let created = client.channel().await.queue_declare(queue.as_str().into(), options, FieldTable::default()).await;
    created.expect("the name is unused");
    let topology = Topology::new().queue(Queue::work(&queue).delivery_limit(6));
    let differences = broker(&server_url().await, &topology).check().await.expect("the topology can be checked");
    let pairs = pairs(&differences);
    for pair in [
        ("durable=true", "durable=false"),
        ("auto_delete=none", "auto_delete=true"),
        ("x-queue-type=quorum", "x-queue-type=none"),
    ] {
        assert!(pairs.contains(&pair), "{pair:?} is not among {pairs:?}");
    }
}

#[tokio::test]
async fn an_exchange_of_another_type_is_reported() {
    let exchange = unique("kinds");
    let client = AmqpClient::connect(&server_url().await).await;
    let options = ExchangeDeclareOptions { internal: true, ..ExchangeDeclareOptions::default() };
    let created = client
        .channel()
        .await
        .exchange_declare(exchange.as_str().into(), ExchangeKind::Direct, options, FieldTable::default())
        .await;
    created.expect("the name is unused");
    let topology = Topology::new().exchange(Exchange::topic(&exchange));
    let differences = broker(&server_url().await, &topology).check().await.expect("the topology can be checked");
    let mut pairs = pairs(&differences);
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [("durable=true", "durable=false"), ("internal=none", "internal=true"), ("type=topic", "type=direct")]
    );
}

#[tokio::test]
async fn a_queue_that_is_exclusive_to_a_connection_is_reported() {
    let queue = unique("locked");
    let client = AmqpClient::connect(&server_url().await).await;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let channel = client.channel().await;
    channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await.expect("the name is unused");
    let broker = broker(&server_url().await, &one_queue(&queue));
    let differences = broker.check().await.expect("the topology can be checked");
    let about_it = differences.iter().find(|difference| difference.what == format!("queue {queue}"));
    assert!(about_it.is_some_and(|difference| difference.found.contains("exclusive")), "{differences:?}");
}

#[tokio::test]
async fn a_difference_is_reported_even_if_the_brokers_text_is_truncated() {
    let queue = unique(&"long".repeat(50));
    let client = AmqpClient::connect(&server_url().await).await;
    client.declare(&queue, &[("x-queue-type", longstr("quorum"))]).await.expect("the name is unused");
    let topology = Topology::new().queue(Queue::work(&queue).delivery_limit(6));
    let broker = broker(&server_url().await, &topology);
    let differences = broker.check().await.expect("the topology can be checked");
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert!(differences[0].found.contains("x-delivery-limit"), "{differences:?}");
}

#[tokio::test]
async fn a_binding_to_an_undeclared_exchange_is_an_error() {
    let queue = unique("loose");
    let topology = Topology::new().queue(Queue::work(&queue)).bind(unique("nowhere"), "#", &queue);
    let error = broker(&server_url().await, &topology).declare().await.expect_err("there is no such exchange");
    assert!(matches!(&error, BrokerError::Misconfigured(why) if why.contains("nowhere")), "{error:?}");
}

//! Reading a queue, and what comes again.

use crate::support::{
    LOOK, PREFETCH, Raw, bodies, declared, impatient, longstr, numbers, open, send, server_url, simple, take, texts,
    try_open, unique, with_queue,
};
use lapin::{
    BasicProperties,
    options::BasicConsumeOptions,
    types::{AMQPValue, FieldTable},
};
use onceward_testkit::eventually;
use onceward_topology::{Exchange, Queue};
use onceward_transport::{Address, Broker, BrokerError};
use onceward_transport_rabbitmq::RabbitMqBroker;

#[tokio::test]
async fn a_strangers_message_arrives() {
    let queue = unique("stranger");
    let broker = declared(&simple(&queue)).await;
    let mut table = FieldTable::default();
    table.insert("X-Weight".into(), AMQPValue::LongInt(12));
    table.insert("x-näme".into(), longstr("wört"));
    let raw = Raw::to(&server_url().await).await;
    let exchange = format!("{queue}.events");
    raw.publish(&exchange, "from.afar", b"not json", BasicProperties::default().with_headers(table)).await;
    raw.publish("", &queue, b"", BasicProperties::default()).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 2).await;
    assert_eq!(arrivals[0].header("x-topic"), Some(format!("{exchange}:from.afar").as_str()));
    assert_eq!(arrivals[0].header("x-weight"), Some("12"));
    assert_eq!(arrivals[0].header("x-näme"), Some("wört"));
    assert_eq!((&arrivals[0].body[..], arrivals[0].redeliveries), (&b"not json"[..], 0));
    assert_eq!(arrivals[1].header("x-topic"), Some(format!(":{queue}").as_str()));
    assert!(arrivals[1].body.is_empty());
}

/// A quorum queue without a limit puts what is sent back at its end; one with a limit, in any order.
#[tokio::test]
async fn what_is_given_back_comes_before_what_was_on_its_way() {
    for limit in [None, Some(20)] {
        let queue = unique("given");
        let mut work = Queue::work(&queue);
        work.delivery_limit = limit;
        let broker = declared(&with_queue(work)).await;
        send(&broker, numbers(&queue, 0..400)).await;
        let mut reader = open(&broker, &queue).await;
        assert_eq!(bodies(&mut *reader, 50).await, texts(0..50));
        for round in 1..=3 {
            reader.give_back().await.expect("given back");
            let again = take(&mut *reader, 150).await;
            let numbers: Vec<String> = again.iter().map(crate::support::text).collect();
            assert_eq!(numbers, texts(0..150), "{limit:?}");
            assert_eq!(again[0].redeliveries, round, "{limit:?}");
        }
        reader.accept().await.expect("accepted");
        assert_eq!(bodies(&mut *reader, PREFETCH).await, texts(150..350), "{limit:?}");
    }
}

#[tokio::test]
async fn giving_back_nothing_changes_nothing() {
    let queue = unique("nothing");
    let broker = declared(&simple(&queue)).await;
    send(&broker, numbers(&queue, 0..10)).await;
    let mut reader = open(&broker, &queue).await;
    assert_eq!(bodies(&mut *reader, 5).await, texts(0..5));
    reader.accept().await.expect("accepted");
    reader.give_back().await.expect("nothing to give back");
    let rest = take(&mut *reader, 5).await;
    assert_eq!(rest.iter().map(|arrival| arrival.redeliveries).max(), Some(0));
}

#[tokio::test]
async fn a_message_whose_readers_die_goes_to_the_dead_letter_queue() {
    let queue = unique("deadly");
    let (exchange, dead) = (format!("{queue}.dlx"), format!("{queue}.dlq"));
    let topology = with_queue(Queue::work(&queue).delivery_limit(2).dead_letter_as(&exchange, "#"))
        .exchange(Exchange::direct(&exchange))
        .queue(Queue::dead_letter_store(&dead))
        .bind(&exchange, "#", &dead);
    let broker = declared(&topology).await;
    send(&broker, numbers(&queue, 7..8)).await;
    for redeliveries in 0..=2 {
        let arrivals = take(&mut *open(&broker, &queue).await, 1).await;
        assert_eq!(arrivals[0].redeliveries, redeliveries);
    }
    let mut reader = open(&broker, &dead).await;
    let arrivals = take(&mut *reader, 1).await;
    assert_eq!(
        (&arrivals[0].body[..], arrivals[0].header("x-first-death-reason")),
        (&b"7"[..], Some("delivery_limit"))
    );
    reader.accept().await.expect("accepted");
}

#[tokio::test]
async fn a_queue_deleted_under_its_reader_ends_the_reading() {
    let queue = unique("deleted");
    let broker = declared(&simple(&queue)).await;
    let mut reader = open(&broker, &queue).await;
    Raw::to(&server_url().await).await.delete(&queue).await;
    eventually("the reader hears of it", || async {
        let mut reader = try_open(&broker, &queue, false).await;
        matches!(&mut reader, Err(BrokerError::Missing(what)) if what.contains(&queue)).then_some(())
    })
    .await;
    assert!(matches!(broker.waiting(&queue).await, Err(BrokerError::Missing(_))));
    for _ in 0..2 {
        let error = loop {
            match reader.receive(1, LOOK).await {
                Ok(arrivals) => assert!(arrivals.is_empty()),
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, BrokerError::Unavailable(why) if why.contains(&queue)), "{error:?}");
    }
}

/// Such as a consumer that the broker still lists though its node is down. It must not shut us out for ever.
#[tokio::test]
async fn a_reader_without_a_claim_is_in_the_way_for_a_while_only() {
    let queue = unique("squatter");
    let url = server_url().await;
    let broker = RabbitMqBroker::new(impatient(Address::Url(url.clone())), simple(&queue));
    broker.declare().await.expect("it can be declared");
    let raw = Raw::to(&url).await;
    let channel = raw.channel().await;
    let options = BasicConsumeOptions::default();
    let squatter = channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await;
    squatter.as_ref().expect("it reads");
    eventually("it is listed", || async {
        matches!(try_open(&broker, &queue, true).await, Err(BrokerError::Taken(_))).then_some(())
    })
    .await;
    open(&broker, &queue).await;
}

//! Receiving and redelivery.

use crate::support::{
    AmqpClient, POLL, PREFETCH, bodies, declared, longstr, numbered_parcels, one_queue, open, send, server_url,
    short_timeouts, take, texts, try_open, unique, with_queue,
};
use lapin::{
    BasicProperties,
    options::{BasicConsumeOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use onceward_broker::{Address, Broker, BrokerError, ReceiveOptions};
use onceward_broker_rabbitmq::RabbitMqBroker;
use onceward_testkit::eventually;
use onceward_topology::{Exchange, Queue};

#[tokio::test]
async fn a_message_of_another_program_arrives() {
    let queue = unique("stranger");
    let broker = declared(&one_queue(&queue)).await;
    let mut table = FieldTable::default();
    table.insert("X-Weight".into(), AMQPValue::LongInt(12));
    table.insert("x-näme".into(), longstr("wört"));
    let client = AmqpClient::connect(&server_url().await).await;
    let exchange = format!("{queue}.events");
    client.publish(&exchange, "from.afar", b"not json", BasicProperties::default().with_headers(table)).await;
    client.publish("", &queue, b"", BasicProperties::default()).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 2).await;
    assert_eq!(arrivals[0].header("x-topic"), Some(format!("{exchange}:from.afar").as_str()));
    assert_eq!(arrivals[0].header("x-weight"), Some("12"));
    assert_eq!(arrivals[0].header("x-näme"), Some("wört"));
    assert_eq!((&arrivals[0].body[..], arrivals[0].redeliveries), (&b"not json"[..], 0));
    assert_eq!(arrivals[1].header("x-topic"), Some(format!(":{queue}").as_str()));
    assert!(arrivals[1].body.is_empty());
}

/// A quorum queue without a limit puts rejected messages at its end; one with a limit, in any order.
#[tokio::test]
async fn messages_given_back_come_before_prefetched_ones() {
    for limit in [None, Some(20)] {
        let queue = unique("given");
        let mut work = Queue::work(&queue);
        work.delivery_limit = limit;
        let broker = declared(&with_queue(work)).await;
        send(&broker, numbered_parcels(&queue, 0..400)).await;
        let mut reader = open(&broker, &queue).await;
        assert_eq!(bodies(&mut *reader, 50).await, texts(0..50));
        for round in 1..=3 {
            reader.return_unaccepted().await.expect("given back");
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
    let broker = declared(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    let mut reader = open(&broker, &queue).await;
    assert_eq!(bodies(&mut *reader, 5).await, texts(0..5));
    reader.accept().await.expect("accepted");
    reader.return_unaccepted().await.expect("nothing to give back");
    let rest = take(&mut *reader, 5).await;
    assert_eq!(rest.iter().map(|arrival| arrival.redeliveries).max(), Some(0));
}

#[tokio::test]
async fn a_message_whose_readers_die_is_dead_lettered() {
    let queue = unique("deadly");
    let (exchange, dead) = (format!("{queue}.dlx"), format!("{queue}.dlq"));
    let topology = with_queue(Queue::work(&queue).delivery_limit(2).dead_letter_as(&exchange, "#"))
        .exchange(Exchange::direct(&exchange))
        .queue(Queue::dead_letter_store(&dead))
        .bind(&exchange, "#", &dead);
    let broker = declared(&topology).await;
    send(&broker, numbered_parcels(&queue, 7..8)).await;
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
async fn a_deleted_queue_ends_its_reader() {
    let queue = unique("deleted");
    let broker = declared(&one_queue(&queue)).await;
    let mut reader = open(&broker, &queue).await;
    AmqpClient::connect(&server_url().await).await.delete(&queue).await;
    eventually("the queue is gone", || async {
        let mut reader = try_open(&broker, &queue, false).await;
        matches!(&mut reader, Err(BrokerError::Missing(what)) if what.contains(&queue)).then_some(())
    })
    .await;
    assert!(matches!(broker.waiting(&queue).await, Err(BrokerError::Missing(_))));
    for _ in 0..2 {
        let error = loop {
            match reader.receive(1, POLL).await {
                Ok(arrivals) => assert!(arrivals.is_empty()),
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, BrokerError::Unavailable(why) if why.contains(&queue)), "{error:?}");
    }
}

/// Such as a consumer that the broker still lists though its node is down. It must not block readers for ever.
#[tokio::test]
async fn a_consumer_without_the_lock_blocks_readers_only_for_a_while() {
    let queue = unique("other");
    let url = server_url().await;
    let broker = RabbitMqBroker::new(short_timeouts(Address::Url(url.clone())), one_queue(&queue));
    broker.declare().await.expect("the topology can be declared");
    let client = AmqpClient::connect(&url).await;
    let channel = client.channel().await;
    let options = BasicConsumeOptions::default();
    let other = channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await;
    other.as_ref().expect("it reads");
    eventually("it is listed", || async {
        matches!(try_open(&broker, &queue, true).await, Err(BrokerError::Taken(_))).then_some(())
    })
    .await;
    open(&broker, &queue).await;
}

/// What `RABBIT_PREFETCH` sets: the rest stays in the queue, where other consumers can have it.
#[tokio::test]
async fn a_reader_holds_no_more_unacknowledged_messages_than_its_prefetch() {
    const PREFETCH: u32 = 10;
    let queue = unique("prefetch");
    let broker = declared(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..50)).await;
    let client = AmqpClient::connect(&server_url().await).await;
    let channel = client.channel().await;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let ready = async || {
        let found = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default()).await;
        found.expect("the queue exists").message_count()
    };
    eventually("all are in the queue", async || (ready().await == 50).then_some(())).await;
    let reading = ReceiveOptions { queue: queue.clone(), exclusive: true, prefetch: PREFETCH as usize };
    let mut reader = broker.open(reading).await.expect("the queue can be opened");
    for acknowledged in [0, PREFETCH, 2 * PREFETCH] {
        // RabbitMQ delivers them before anything is received, and then no more until they are acknowledged.
        eventually("the prefetch is used up", async || (ready().await == 50 - PREFETCH - acknowledged).then_some(()))
            .await;
        let held = bodies(&mut *reader, PREFETCH as usize).await;
        assert_eq!(held, texts(acknowledged..acknowledged + PREFETCH));
        assert_eq!(reader.receive(50, POLL).await.expect("the queue can be read"), [], "more than the prefetch");
        assert_eq!(ready().await, 50 - PREFETCH - acknowledged);
        reader.accept().await.expect("accepted");
    }
}

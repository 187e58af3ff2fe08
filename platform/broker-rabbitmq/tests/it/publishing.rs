//! Verdicts on published messages.

use crate::support::{
    AmqpClient, bodies, broker, declared, numbered_parcels, one_queue, open, parcel, send, server_url, take, unique,
};
use lapin::options::{BasicGetOptions, ExchangeDeleteOptions};
use onceward_broker::{Broker, Parcel, PublishOutcome, wire};
use onceward_envelope::headers;
use onceward_topology::{Exchange, Topic};

fn is_refused_for(verdict: &PublishOutcome, word: &str) -> bool {
    matches!(verdict, PublishOutcome::Refused(why) if why.contains(word))
}

#[tokio::test]
async fn a_message_carries_the_standard_amqp_properties() {
    let queue = unique("properties");
    let broker = declared(&one_queue(&queue)).await;
    let mut parcel = parcel(&format!("{queue}.events"), "a", r#"{"é":1}"#);
    for (name, value) in [
        (headers::CORRELATION_ID, "c-1"),
        (headers::SCHEMA, "payment.posted.v1"),
        (wire::PUBLISHED_AT, "2026-11-16T00:00:00Z"),
    ] {
        parcel.headers.push(name, value);
    }
    let id = parcel.id.to_string();
    send(&broker, vec![parcel]).await;
    let channel = AmqpClient::connect(&server_url().await).await;
    let channel = channel.channel().await;
    let got = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await.expect("an answer");
    let message = got.expect("a message").delivery;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(message.properties.delivery_mode(), &Some(2));
    assert_eq!(text(message.properties.content_type()).as_deref(), Some("application/json"));
    assert_eq!(text(message.properties.message_id()), Some(id));
    assert_eq!(text(message.properties.correlation_id()).as_deref(), Some("c-1"));
    assert_eq!(text(message.properties.kind()).as_deref(), Some("payment.posted.v1"));
    assert_eq!(message.properties.timestamp(), &Some(1_794_787_200));
    let table = message.properties.headers().clone().expect("headers");
    assert_eq!(table.inner()[wire::ORDERING_KEY].as_long_string().expect("a long string").to_string(), "key");
    assert_eq!(message.data, r#"{"é":1}"#.as_bytes());
}

#[tokio::test]
async fn only_the_unroutable_messages_of_a_batch_are_refused() {
    let queue = unique("mixed");
    let exchange = format!("{queue}.direct");
    let topology = one_queue(&queue).exchange(Exchange::direct(&exchange)).bind(&exchange, "right", &queue);
    let broker = declared(&topology).await;
    let batch: Vec<Parcel> = (0..400)
        .map(|n| {
            let mut parcel = parcel(&exchange, if n % 3 == 0 { "wrong" } else { "right" }, n.to_string());
            parcel.expected = n % 2 == 0;
            parcel
        })
        .collect();
    let verdicts = broker.publish(batch).await.expect("the broker responds");
    for (n, verdict) in verdicts.iter().enumerate() {
        if n % 6 == 0 {
            assert!(is_refused_for(verdict, "unroutable: no queue is bound"), "{n}: {verdict:?}");
        } else {
            assert_eq!(verdict, &PublishOutcome::Accepted, "{n}");
        }
    }
    let expected: Vec<String> = (0..400).filter(|n| n % 3 != 0).map(|n| n.to_string()).collect();
    let mut reader = open(&broker, &queue).await;
    let mut received = Vec::new();
    for part in [200, expected.len() - 200] {
        received.extend(bodies(&mut *reader, part).await);
        reader.accept().await.expect("accepted");
    }
    assert_eq!(received, expected);
}

#[tokio::test]
async fn a_deleted_exchange_affects_only_its_own_messages() {
    let queue = unique("vanishing");
    let exchange = format!("{queue}.other");
    let broker = declared(&one_queue(&queue).exchange(Exchange::fanout(&exchange)).bind(&exchange, "", &queue)).await;
    let batch = |first: u32| -> Vec<Parcel> {
        let mut batch = numbered_parcels(&queue, first..first + 100);
        batch.insert(50, parcel(&exchange, "", "other"));
        batch
    };
    send(&broker, batch(0)).await;
    let client = AmqpClient::connect(&server_url().await).await;
    let deleted =
        client.channel().await.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await;
    deleted.expect("the entity can be deleted");
    // The first batch may fail as a whole; the relay would publish it again.
    let mut verdicts = broker.publish(batch(100)).await;
    if verdicts.is_err() {
        verdicts = broker.publish(batch(100)).await;
    }
    for verdicts in [verdicts, broker.publish(batch(200)).await] {
        let verdicts = verdicts.expect("the broker responds");
        assert!(is_refused_for(&verdicts[50], &exchange), "{:?}", verdicts[50]);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == PublishOutcome::Accepted).count(), 100);
    }
    broker.declare().await.expect("the topology can be declared again");
    send(&broker, batch(300)).await;
}

#[tokio::test]
async fn messages_beyond_protocol_limits_are_refused_and_the_rest_is_accepted() {
    let queue = unique("unfit");
    let broker = declared(&one_queue(&queue)).await;
    let mut batch = numbered_parcels(&queue, 0..5);
    batch[1].headers.push("x-large", &"x".repeat(200_000));
    batch[2].headers.push("x".repeat(300), "");
    batch[3].topic = Topic::new(batch[3].topic.exchange.clone(), "k".repeat(256)).into();
    let verdicts = broker.publish(batch).await.expect("the broker responds");
    assert_eq!((&verdicts[0], &verdicts[4]), (&PublishOutcome::Accepted, &PublishOutcome::Accepted));
    assert!(is_refused_for(&verdicts[1], "the headers have"), "{verdicts:?}");
    assert!(is_refused_for(&verdicts[2], "300 bytes"), "{verdicts:?}");
    assert!(is_refused_for(&verdicts[3], "256 bytes"), "{verdicts:?}");
    // Just below the limit, it arrives.
    let mut large = numbered_parcels(&queue, 5..6);
    large[0].headers.push("x-large", &"x".repeat(125_000));
    send(&broker, large).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 3).await;
    assert_eq!(arrivals[2].header("x-large").map(str::len), Some(125_000));
}

#[tokio::test]
async fn more_concurrent_batches_than_channels_all_arrive() {
    let queue = unique("crowd");
    let broker = declared(&one_queue(&queue)).await;
    let publishing = (0..40).map(|n| send(&broker, numbered_parcels(&queue, n * 50..n * 50 + 50)));
    futures_util::future::join_all(publishing).await;
    assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(2_000));
}

#[tokio::test]
async fn bodies_beyond_the_in_flight_limit_are_sent_in_order() {
    let queue = unique("window");
    let broker = declared(&one_queue(&queue)).await;
    let body = |n: u8| vec![n; 8 * 1024 * 1024];
    send(&broker, (0..6).map(|n| parcel(&format!("{queue}.events"), "a", body(n))).collect()).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 6).await;
    let firsts: Vec<u8> = arrivals.iter().map(|arrival| arrival.body[0]).collect();
    assert_eq!(firsts, [0, 1, 2, 3, 4, 5]);
    assert!(arrivals.iter().all(|arrival| arrival.body.len() == 8 * 1024 * 1024));
}

#[tokio::test]
async fn a_wrong_virtual_host_is_a_configuration_error() {
    let url = server_url().await.replace("/%2f", "/nowhere");
    let error = broker(&url, &one_queue("q")).ping().await.expect_err("there is none").to_string();
    assert!(error.contains("virtual host"), "{error}");
}

//! What the broker says of messages, and of which.

use crate::support::{Raw, bodies, broker, declared, numbers, open, parcel, send, server_url, simple, take, unique};
use lapin::options::{BasicGetOptions, ExchangeDeleteOptions};
use onceward_envelope::headers;
use onceward_topology::{Exchange, Topic};
use onceward_transport::{Broker, Parcel, Verdict, wire};

fn is_refused_for(verdict: &Verdict, word: &str) -> bool {
    matches!(verdict, Verdict::Refused(why) if why.contains(word))
}

#[tokio::test]
async fn a_message_carries_what_other_programs_look_for() {
    let queue = unique("properties");
    let broker = declared(&simple(&queue)).await;
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
    let channel = Raw::to(&server_url().await).await;
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
async fn of_a_mixed_batch_exactly_the_unroutable_are_refused() {
    let queue = unique("mixed");
    let exchange = format!("{queue}.direct");
    let topology = simple(&queue).exchange(Exchange::direct(&exchange)).bind(&exchange, "right", &queue);
    let broker = declared(&topology).await;
    let batch: Vec<Parcel> = (0..400)
        .map(|n| {
            let mut parcel = parcel(&exchange, if n % 3 == 0 { "wrong" } else { "right" }, n.to_string());
            parcel.expected = n % 2 == 0;
            parcel
        })
        .collect();
    let verdicts = broker.publish(batch).await.expect("it answers");
    for (n, verdict) in verdicts.iter().enumerate() {
        if n % 6 == 0 {
            assert!(is_refused_for(verdict, "unroutable: no queue takes"), "{n}: {verdict:?}");
        } else {
            assert_eq!(verdict, &Verdict::Accepted, "{n}");
        }
    }
    let expected: Vec<String> = (0..400).filter(|n| n % 3 != 0).map(|n| n.to_string()).collect();
    let mut reader = open(&broker, &queue).await;
    let mut came = Vec::new();
    for part in [200, expected.len() - 200] {
        came.extend(bodies(&mut *reader, part).await);
        reader.accept().await.expect("accepted");
    }
    assert_eq!(came, expected);
}

#[tokio::test]
async fn an_exchange_that_vanishes_costs_only_its_own_messages() {
    let queue = unique("vanishing");
    let exchange = format!("{queue}.other");
    let broker = declared(&simple(&queue).exchange(Exchange::fanout(&exchange)).bind(&exchange, "", &queue)).await;
    let batch = |first: u32| -> Vec<Parcel> {
        let mut batch = numbers(&queue, first..first + 100);
        batch.insert(50, parcel(&exchange, "", "other"));
        batch
    };
    send(&broker, batch(0)).await;
    let raw = Raw::to(&server_url().await).await;
    let deleted = raw.channel().await.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await;
    deleted.expect("it can be deleted");
    // The first may find out the hard way; the relay would publish it again.
    let mut verdicts = broker.publish(batch(100)).await;
    if verdicts.is_err() {
        verdicts = broker.publish(batch(100)).await;
    }
    for verdicts in [verdicts, broker.publish(batch(200)).await] {
        let verdicts = verdicts.expect("it answers");
        assert!(is_refused_for(&verdicts[50], &exchange), "{:?}", verdicts[50]);
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Accepted).count(), 100);
    }
    broker.declare().await.expect("it can be declared again");
    send(&broker, batch(300)).await;
}

#[tokio::test]
async fn what_the_protocol_cannot_carry_is_refused_beside_its_neighbours() {
    let queue = unique("unfit");
    let broker = declared(&simple(&queue)).await;
    let mut batch = numbers(&queue, 0..5);
    batch[1].headers.push("x-large", &"x".repeat(200_000));
    batch[2].headers.push("x".repeat(300), "");
    batch[3].topic = Topic::new(batch[3].topic.exchange.clone(), "k".repeat(256)).into();
    let verdicts = broker.publish(batch).await.expect("it answers");
    assert_eq!((&verdicts[0], &verdicts[4]), (&Verdict::Accepted, &Verdict::Accepted));
    assert!(is_refused_for(&verdicts[1], "headers of"), "{verdicts:?}");
    assert!(is_refused_for(&verdicts[2], "300 bytes"), "{verdicts:?}");
    assert!(is_refused_for(&verdicts[3], "256 bytes"), "{verdicts:?}");
    // Just below the limit, it arrives.
    let mut large = numbers(&queue, 5..6);
    large[0].headers.push("x-large", &"x".repeat(125_000));
    send(&broker, large).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 3).await;
    assert_eq!(arrivals[2].header("x-large").map(str::len), Some(125_000));
}

#[tokio::test]
async fn more_batches_at_once_than_there_are_channels_all_arrive() {
    let queue = unique("crowd");
    let broker = declared(&simple(&queue)).await;
    let publishing = (0..40).map(|n| send(&broker, numbers(&queue, n * 50..n * 50 + 50)));
    futures_util::future::join_all(publishing).await;
    assert_eq!(broker.waiting(&queue).await.expect("it answers"), Some(2_000));
}

#[tokio::test]
async fn bodies_beyond_the_window_are_sent_in_order() {
    let queue = unique("window");
    let broker = declared(&simple(&queue)).await;
    let body = |n: u8| vec![n; 8 * 1024 * 1024];
    send(&broker, (0..6).map(|n| parcel(&format!("{queue}.events"), "a", body(n))).collect()).await;
    let arrivals = take(&mut *open(&broker, &queue).await, 6).await;
    let firsts: Vec<u8> = arrivals.iter().map(|arrival| arrival.body[0]).collect();
    assert_eq!(firsts, [0, 1, 2, 3, 4, 5]);
    assert!(arrivals.iter().all(|arrival| arrival.body.len() == 8 * 1024 * 1024));
}

#[tokio::test]
async fn a_wrong_virtual_host_is_a_wrong_setting() {
    let url = server_url().await.replace("/%2f", "/nowhere");
    let error = broker(&url, &simple("q")).ping().await.expect_err("there is none").to_string();
    assert!(error.contains("virtual host"), "{error}");
}

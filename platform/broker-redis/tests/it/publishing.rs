//! Routing, missing queues, a full server, and messages of other programs.

use crate::support::*;
use onceward_broker::{Broker, BrokerError, PublishOutcome, wire};
use onceward_testkit::{private_redis, redis_url};
use onceward_topology::{Exchange, Queue, Topology};

/// Two work queues and a dead-letter queue behind three exchanges.
fn three_exchanges(name: &str) -> Topology {
    let [topic, direct, fanout] = ["topic", "direct", "fanout"].map(|kind| format!("{name}.{kind}"));
    let [orders, audit, dead] = ["orders", "audit", "dead"].map(|queue| format!("{name}.{queue}"));
    Topology::new()
        .exchange(Exchange::topic(&topic))
        .exchange(Exchange::direct(&direct))
        .exchange(Exchange::fanout(&fanout))
        .queue(Queue::work(&orders))
        .queue(Queue::work(&audit))
        .queue(Queue::dead_letter_store(&dead))
        .bind(&topic, "order.*", &orders)
        .bind(&topic, "#", &audit)
        .bind(&direct, "exact", &orders)
        .bind(&fanout, "", &orders)
        .bind(&fanout, "", &dead)
}

#[tokio::test]
async fn a_message_reaches_exactly_the_bound_queues() {
    let name = unique("routed");
    let broker = broker(&redis_url(), &three_exchanges(&name));
    broker.declare().await.unwrap();
    let to = |exchange: &str, key: &str| parcel(&format!("{name}.{exchange}"), key, format!("{exchange} {key}"));
    send(
        &broker,
        vec![to("topic", "order.placed"), to("topic", "stock.taken"), to("direct", "exact"), to("fanout", "any")],
    )
    .await;
    for (queue, expected) in [
        ("orders", &["topic order.placed", "direct exact", "fanout any"][..]),
        ("audit", &["topic order.placed", "topic stock.taken"]),
        ("dead", &["fanout any"]),
    ] {
        let queue = format!("{name}.{queue}");
        assert_eq!(broker.waiting(&queue).await.unwrap(), Some(expected.len() as u64), "{queue}");
        assert_eq!(bodies(&mut *open(&broker, &queue, true).await.unwrap(), expected.len()).await, expected);
    }
}

#[tokio::test]
async fn an_unroutable_message_is_refused_if_a_reader_is_expected() {
    let name = unique("nowhere");
    let broker = broker(&redis_url(), &three_exchanges(&name));
    broker.declare().await.unwrap();
    let direct = format!("{name}.direct");
    let mut unexpected = parcel(&direct, "other", "");
    unexpected.expected = false;
    let parcels =
        vec![parcel(&direct, "other", ""), unexpected, parcel("unknown", "a", ""), parcel(&direct, "exact", "")];
    let verdicts = broker.publish(parcels).await.unwrap();
    assert!(matches!(&verdicts[0], PublishOutcome::Refused(why) if why.contains("no queue is bound")), "{verdicts:?}");
    assert!(matches!(&verdicts[2], PublishOutcome::Refused(why) if why.contains("unknown")), "{verdicts:?}");
    assert_eq!([&verdicts[1], &verdicts[3]], [&PublishOutcome::Accepted; 2]);
    assert_eq!(broker.waiting(&format!("{name}.orders")).await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_deleted_queue_is_reported_and_other_queues_get_no_copies() {
    let name = unique("vanished");
    let broker = broker(&redis_url(), &three_exchanges(&name));
    broker.declare().await.unwrap();
    let client = RedisClient::connect(&redis_url()).await;
    let [orders, audit] = ["orders", "audit"].map(|queue| format!("{name}.{queue}"));
    client.command::<()>(&["DEL", &stream(&orders)]).await;
    for _ in 0..3 {
        let published = broker.publish(vec![parcel(&format!("{name}.topic"), "order.placed", "1")]).await;
        assert!(matches!(&published, Err(BrokerError::Missing(what)) if what.contains(&orders)), "{published:?}");
    }
    assert_eq!(client.length(&audit).await, 1);
    broker.declare().await.unwrap();
    send(&broker, vec![parcel(&format!("{name}.topic"), "order.placed", "1")]).await;
    assert_eq!((client.length(&orders).await, client.length(&audit).await), (1, 2));
}

#[tokio::test]
async fn a_full_server_accepts_nothing_of_a_batch_and_can_be_drained() {
    let server = private_redis();
    let (url, client) = (server.url(), RedisClient::connect(&server.url()).await);
    let broker = broker(&url, &one_queue("q"));
    broker.declare().await.unwrap();
    send(&broker, numbered_parcels("q", 0..10)).await;
    client.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = broker.publish(numbered_parcels("q", 10..20)).await;
    assert!(matches!(&refused, Err(BrokerError::Unavailable(why)) if why.contains("OOM")), "{refused:?}");
    assert_eq!(client.length("q").await, 10);
    let mut receiver = open(&broker, "q", true).await.expect("the lease is free");
    assert_eq!(bodies(&mut *receiver, 10).await, texts(0..10));
    assert_eq!(broker.waiting("q").await.unwrap(), Some(10));
    receiver.accept().await.unwrap();
    assert_eq!(client.length("q").await, 0);
    client.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    send(&broker, numbered_parcels("q", 10..20)).await;
    assert_eq!(bodies(&mut *receiver, 10).await, texts(10..20));
}

#[tokio::test]
async fn a_message_of_another_program_arrives_with_its_fields_as_headers() {
    let (queue, broker) = declared("foreign").await;
    let client = RedisClient::connect(&redis_url()).await;
    client
        .command::<String>(&["XADD", &stream(&queue), "*", "body", "{}", "source", "cron-Grüße", "x-priority", "5"])
        .await;
    client.command::<String>(&["XADD", &stream(&queue), "*", "x-topic", "theirs:key"]).await;
    let received = take(&mut *open(&broker, &queue, true).await.unwrap(), 2).await;
    assert_eq!(&received[0].body[..], b"{}");
    assert_eq!((received[0].header("source"), received[0].header(wire::PRIORITY)), (Some("cron-Grüße"), Some("5")));
    assert_eq!(received[0].header(wire::TOPIC), Some(&*format!(":{queue}")));
    assert_eq!((received[1].header(wire::TOPIC), received[1].body.len()), (Some("theirs:key"), 0));
}

#[tokio::test]
async fn large_and_empty_bodies_keep_their_order_and_arrive_in_limited_batches() {
    let (queue, broker) = declared("large").await;
    let sizes = [0, 8 << 20, 1, 1 << 20, 0, 3 << 20, 3 << 20, 3 << 20, 100, 8 << 20, 7];
    let sent: Vec<Vec<u8>> = sizes.iter().map(|size| (0..*size).map(|n: u32| (n % 251) as u8).collect()).collect();
    send(&broker, sent.iter().map(|body| parcel(&format!("{queue}.events"), "a", body.clone())).collect()).await;
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    let mut received = Vec::new();
    while received.len() < sent.len() {
        let batch = receiver.receive(100, POLL).await.unwrap();
        let bytes: usize = batch.iter().map(|arrival| arrival.body.len()).sum();
        assert!(bytes <= 12 << 20, "{bytes} bytes at once");
        received.extend(batch.into_iter().map(|arrival| arrival.body));
    }
    assert!(received == sent, "bodies arrived changed");
}

//! Shared readers of one queue.

use crate::support::*;
use onceward_broker::{Address, Broker, BrokerConfig};
use onceward_broker_redis::RedisBroker;
use onceward_testkit::{eventually, redis_url};
use std::time::Duration;

/// Simulates a reader that died a while ago with the first `count` messages unaccepted.
async fn dead_reader(client: &RedisClient, queue: &str, count: u32) {
    let (stream, count) = (stream(queue), count.to_string());
    client.command::<()>(&["XREADGROUP", "GROUP", queue, "dead", "COUNT", &count, "STREAMS", &stream, ">"]).await;
    let held: Vec<(String, String, u64, u64)> =
        client.command(&["XPENDING", &stream, queue, "-", "+", &count, "dead"]).await;
    for (id, ..) in &held {
        client.command::<Vec<String>>(&["XCLAIM", &stream, queue, "dead", "0", id, "IDLE", "100000", "JUSTID"]).await;
    }
}

#[tokio::test]
async fn messages_of_a_dead_reader_are_claimed_by_others() {
    let (queue, broker) = declared("stale").await;
    send(&broker, numbered_parcels(&queue, 0..5)).await;
    let client = RedisClient::connect(&redis_url()).await;
    dead_reader(&client, &queue, 3).await;
    let mut living = [open(&broker, &queue, false).await.unwrap(), open(&broker, &queue, false).await.unwrap()];
    let first = take(&mut *living[0], 2).await;
    let second = take(&mut *living[1], 3).await;
    let received: Vec<_> =
        first.iter().chain(&second).map(|received| (text(received), received.redeliveries)).collect();
    assert_eq!(received, texts(0..5).into_iter().zip([1, 1, 1, 0, 0]).collect::<Vec<_>>());
    for living in &mut living {
        living.accept().await.unwrap();
    }
    assert_eq!(broker.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_dead_consumer_without_pending_messages_is_deleted() {
    let queue = unique("nameless");
    let config = BrokerConfig { heartbeat: Duration::from_millis(200), ..BrokerConfig::new(Address::Url(redis_url())) };
    let broker = RedisBroker::new(config, one_queue(&queue));
    let client = RedisClient::connect(&redis_url()).await;
    eventually("it can be declared", || async { broker.declare().await.ok() }).await;
    eventually("it accepts messages", || async { broker.publish(numbered_parcels(&queue, 0..1)).await.ok() }).await;
    dead_reader(&client, &queue, 1).await;
    eventually("its message is claimed", || async {
        let mut living = open(&broker, &queue, false).await.ok()?;
        let received = living.receive(1, Duration::ZERO).await.ok()?;
        assert!(client.consumers(&queue).await.contains(&"dead".to_owned()));
        living.accept().await.ok().filter(|()| received.len() == 1)
    })
    .await;
    eventually("no consumer is left", || async {
        drop(open(&broker, &queue, false).await.ok()?);
        client.consumers(&queue).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn messages_given_back_are_available_to_other_readers_at_once() {
    let (queue, broker) = declared("returned").await;
    send(&broker, numbered_parcels(&queue, 0..4)).await;
    let mut first = open(&broker, &queue, false).await.unwrap();
    let mut second = open(&broker, &queue, false).await.unwrap();
    take(&mut *first, 4).await;
    first.return_unaccepted().await.unwrap();
    let received = second.receive(10, Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(text).collect::<Vec<_>>(), texts(0..4));
    assert!(received.iter().all(|arrival| arrival.redeliveries == 1));
}

#[tokio::test]
async fn a_reader_that_leaves_returns_unaccepted_messages_and_its_consumer_is_deleted() {
    let (queue, broker) = declared("left").await;
    send(&broker, numbered_parcels(&queue, 0..6)).await;
    let mut first = open(&broker, &queue, false).await.unwrap();
    take(&mut *first, 2).await;
    first.accept().await.unwrap();
    take(&mut *first, 2).await;
    drop(first);
    let client = RedisClient::connect(&redis_url()).await;
    eventually("its messages are released", || async {
        (client.consumers(&queue).await == ["returned"]).then_some(())
    })
    .await;
    let mut second = open(&broker, &queue, false).await.unwrap();
    assert_eq!(bodies(&mut *second, 4).await, texts(2..6));
}

//! Several readers of one queue.

use crate::support::*;
use onceward_testkit::{eventually, redis_url};
use onceward_transport::{Address, Broker, BrokerConfig};
use onceward_transport_redis::RedisBroker;
use std::time::Duration;

/// A reader that died a while ago with the first `count` messages in hand.
async fn dead_reader(raw: &Raw, queue: &str, count: u32) {
    let (stream, count) = (stream(queue), count.to_string());
    raw.ask::<()>(&["XREADGROUP", "GROUP", queue, "dead", "COUNT", &count, "STREAMS", &stream, ">"]).await;
    let held: Vec<(String, String, u64, u64)> = raw.ask(&["XPENDING", &stream, queue, "-", "+", &count, "dead"]).await;
    for (id, ..) in &held {
        raw.ask::<Vec<String>>(&["XCLAIM", &stream, queue, "dead", "0", id, "IDLE", "100000", "JUSTID"]).await;
    }
}

#[tokio::test]
async fn what_a_dead_reader_held_is_claimed_by_the_living() {
    let (queue, broker) = declared("stale").await;
    send(&broker, numbers(&queue, 0..5)).await;
    let raw = Raw::to(&redis_url()).await;
    dead_reader(&raw, &queue, 3).await;
    let mut living = [open(&broker, &queue, false).await.unwrap(), open(&broker, &queue, false).await.unwrap()];
    let first = take(&mut *living[0], 2).await;
    let second = take(&mut *living[1], 3).await;
    let came: Vec<_> = first.iter().chain(&second).map(|came| (text(came), came.redeliveries)).collect();
    assert_eq!(came, texts(0..5).into_iter().zip([1, 1, 1, 0, 0]).collect::<Vec<_>>());
    for living in &mut living {
        living.accept().await.unwrap();
    }
    assert_eq!(broker.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn the_name_of_a_dead_reader_goes_when_nothing_stands_under_it() {
    let queue = unique("nameless");
    let config = BrokerConfig { heartbeat: Duration::from_millis(200), ..BrokerConfig::new(Address::Url(redis_url())) };
    let broker = RedisBroker::new(config, simple(&queue));
    let raw = Raw::to(&redis_url()).await;
    eventually("it can be declared", || async { broker.declare().await.ok() }).await;
    eventually("it takes messages", || async { broker.publish(numbers(&queue, 0..1)).await.ok() }).await;
    dead_reader(&raw, &queue, 1).await;
    eventually("what it held is claimed", || async {
        let mut living = open(&broker, &queue, false).await.ok()?;
        let came = living.receive(1, Duration::ZERO).await.ok()?;
        assert!(raw.consumers(&queue).await.contains(&"dead".to_owned()));
        living.accept().await.ok().filter(|()| came.len() == 1)
    })
    .await;
    eventually("no name is left", || async {
        drop(open(&broker, &queue, false).await.ok()?);
        raw.consumers(&queue).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_one_gives_back_another_gets_at_once() {
    let (queue, broker) = declared("returned").await;
    send(&broker, numbers(&queue, 0..4)).await;
    let mut first = open(&broker, &queue, false).await.unwrap();
    let mut second = open(&broker, &queue, false).await.unwrap();
    take(&mut *first, 4).await;
    first.give_back().await.unwrap();
    let came = second.receive(10, Duration::ZERO).await.unwrap();
    assert_eq!(came.iter().map(text).collect::<Vec<_>>(), texts(0..4));
    assert!(came.iter().all(|arrival| arrival.redeliveries == 1));
}

#[tokio::test]
async fn who_leaves_hands_over_what_was_not_accepted_and_leaves_no_name() {
    let (queue, broker) = declared("left").await;
    send(&broker, numbers(&queue, 0..6)).await;
    let mut first = open(&broker, &queue, false).await.unwrap();
    take(&mut *first, 2).await;
    first.accept().await.unwrap();
    take(&mut *first, 2).await;
    drop(first);
    let raw = Raw::to(&redis_url()).await;
    eventually("what it held is parked", || async { (raw.consumers(&queue).await == ["returned"]).then_some(()) })
        .await;
    let mut second = open(&broker, &queue, false).await.unwrap();
    assert_eq!(bodies(&mut *second, 4).await, texts(2..6));
}

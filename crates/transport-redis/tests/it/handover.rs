//! A queue with one reader at a time, and how it changes hands.

use crate::support::*;
use onceward_testkit::{Proxy, eventually, redis_url};
use onceward_transport::{Address, Broker, BrokerConfig, BrokerError};
use onceward_transport_redis::RedisBroker;
use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

fn lease(queue: &str) -> String {
    format!("onceward:{{{queue}}}:reader")
}

fn with_heartbeat(url: &str, queue: &str, heartbeat: Duration) -> Arc<RedisBroker> {
    let config = BrokerConfig { heartbeat, ..BrokerConfig::new(Address::Url(url.to_owned())) };
    Arc::new(RedisBroker::new(config, simple(queue)))
}

/// The first reader lives in a runtime that nobody drives for a while, as in a process that is stopped.
#[tokio::test]
async fn a_stalled_reader_that_was_replaced_is_handed_nothing_new() {
    let (queue, successors) = declared("stalled").await;
    send(&successors, numbers(&queue, 0..10)).await;
    let (wake, woken) = mpsc::channel::<()>();
    let (say, heard) = tokio::sync::oneshot::channel();
    let stalled = thread::spawn({
        let queue = queue.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let broker = with_heartbeat(&redis_url(), &queue, Duration::from_millis(500));
            let mut receiver = runtime.block_on(open(&broker, &queue, true)).unwrap();
            let had = runtime.block_on(bodies(&mut *receiver, 4));
            say.send(had).unwrap();
            woken.recv().unwrap();
            let next = runtime.block_on(receiver.receive(10, LOOK));
            // What it had may still be accepted: it was written down.
            runtime.block_on(receiver.accept()).unwrap();
            next
        }
    });
    assert_eq!(heard.await.unwrap(), texts(0..4));
    let mut successor = eventually("the lease runs out", || async { open(&successors, &queue, true).await.ok() }).await;
    assert_eq!(bodies(&mut *successor, 6).await, texts(0..6));
    wake.send(()).unwrap();
    let next = tokio::task::spawn_blocking(|| stalled.join().unwrap()).await.unwrap();
    assert!(matches!(next, Err(BrokerError::Taken(_))), "{next:?}");
    assert_eq!(bodies(&mut *successor, 4).await, texts(6..10));
    successor.accept().await.unwrap();
    assert_eq!(successors.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_reader_keeps_its_queue_though_it_does_not_ask_for_messages() {
    let (queue, rivals) = declared("kept").await;
    let raw = Raw::to(&redis_url()).await;
    let broker = with_heartbeat(&redis_url(), &queue, Duration::from_secs(1));
    let receiver = open(&broker, &queue, true).await.unwrap();
    let left = || async { raw.ask::<i64>(&["PTTL", &lease(&queue)]).await };
    for _ in 0..3 {
        eventually("the lease runs down", || async { (left().await < 800).then_some(()) }).await;
        eventually("the lease is extended", || async { (left().await > 900).then_some(()) }).await;
        assert!(matches!(open(&rivals, &queue, true).await, Err(BrokerError::Taken(_))));
    }
    drop(receiver);
    eventually("the lease is released", || async { (left().await == -2).then_some(()) }).await;
    open(&rivals, &queue, true).await.expect("it is free");
}

#[tokio::test]
async fn a_reader_cut_off_with_its_lease_comes_back_without_waiting_for_it() {
    let queue = unique("cut");
    let proxy = Proxy::before(&redis_url());
    let broker = with_heartbeat(&proxy.url(&redis_url()), &queue, Duration::from_secs(600));
    broker.declare().await.unwrap();
    send(&broker, numbers(&queue, 0..3)).await;
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    proxy.cut();
    assert!(matches!(receiver.receive(1, LOOK).await, Err(BrokerError::Unavailable(_))));
    drop(receiver);
    assert!(matches!(open(&broker, &queue, true).await, Err(BrokerError::Unavailable(_))));
    proxy.resume();
    assert!(matches!(
        open(&with_heartbeat(&redis_url(), &queue, LOOK), &queue, true).await,
        Err(BrokerError::Taken(_))
    ));
    let reopen = || async { open(&broker, &queue, true).await.ok() };
    let mut receiver = eventually("the proxy listens again", reopen).await;
    assert_eq!(bodies(&mut *receiver, 3).await, texts(0..3));
}

/// A command that was held up on a dead connection and arrives after the reader went on without it.
#[tokio::test]
async fn a_reading_that_arrives_late_takes_nothing_away() {
    let (queue, elsewhere) = declared("late").await;
    let proxy = Proxy::before(&redis_url());
    let path = std::env::temp_dir().join(&queue);
    std::fs::write(&path, proxy.url(&redis_url())).unwrap();
    let address = Address::File(path.clone());
    let config = BrokerConfig { heartbeat: Duration::from_secs(2), ..BrokerConfig::new(address) };
    let broker = RedisBroker::new(config, simple(&queue));
    send(&elsewhere, numbers(&queue, 0..2)).await;
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    proxy.stall();
    assert!(matches!(receiver.receive(10, LOOK).await, Err(BrokerError::Unavailable(_))));
    std::fs::write(&path, redis_url()).unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    assert_eq!(receiver.receive(10, Duration::ZERO).await.unwrap(), [], "it knows that no more is pending");
    send(&elsewhere, numbers(&queue, 2..5)).await;
    proxy.resume();
    eventually("all of it has arrived", || async { (proxy.open() == 0).then_some(()) }).await;
    send(&elsewhere, numbers(&queue, 5..8)).await;
    assert_eq!(bodies(&mut *receiver, 6).await, texts(2..8));
    std::fs::remove_file(&path).unwrap();
}

/// Whoever stops waiting for messages does not know what was on its way to it.
#[tokio::test]
async fn a_receive_that_is_given_up_loses_nothing_and_keeps_the_order() {
    let (queue, broker) = declared("impatient").await;
    let publishing = tokio::spawn({
        let (queue, broker) = (queue.clone(), broker.clone());
        async move {
            for n in 0..150 {
                send(&broker, numbers(&queue, n * 2..n * 2 + 2)).await;
            }
        }
    });
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    let (mut landed, mut round) = (Vec::new(), 0);
    let reading = async {
        while first_times(&landed).len() < 300 {
            round += 1;
            let patience = Duration::from_micros(round * 173 % 3_000);
            if let Ok(came) = tokio::time::timeout(patience, receiver.receive(7, LOOK)).await {
                landed.extend(came.unwrap().iter().map(text));
            }
            if round % 3 == 0 {
                receiver.accept().await.unwrap();
            }
        }
    };
    tokio::time::timeout(onceward_testkit::PATIENCE, reading).await.expect("everything comes");
    publishing.await.unwrap();
    assert_eq!(first_times(&landed), texts(0..300));
}

#[tokio::test]
async fn who_reads_alone_takes_over_from_those_who_share() {
    let (queue, broker) = declared("alone").await;
    send(&broker, numbers(&queue, 0..6)).await;
    let mut sharing = [open(&broker, &queue, false).await.unwrap(), open(&broker, &queue, false).await.unwrap()];
    assert_eq!(bodies(&mut *sharing[0], 2).await, texts(0..2));
    assert_eq!(bodies(&mut *sharing[1], 2).await, texts(2..4));
    let mut alone = open(&broker, &queue, true).await.unwrap();
    assert!(matches!(sharing[0].receive(1, LOOK).await, Err(BrokerError::Taken(_))));
    assert!(matches!(open(&broker, &queue, false).await, Err(BrokerError::Taken(_))));
    assert_eq!(bodies(&mut *alone, 6).await, texts(0..6));
}

//! Exclusive readers and handovers.

use crate::support::*;
use onceward_broker::{Address, Broker, BrokerConfig, BrokerError};
use onceward_broker_redis::RedisBroker;
use onceward_testkit::{TcpProxy, eventually, redis_url};
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
    Arc::new(RedisBroker::new(config, one_queue(queue)))
}

/// The first reader lives in a runtime that is not driven for a while, as in a suspended process.
#[tokio::test]
async fn a_stalled_reader_that_was_replaced_receives_nothing_new() {
    let (queue, successors) = declared("stalled").await;
    send(&successors, numbered_parcels(&queue, 0..10)).await;
    let (wake, woken) = mpsc::channel::<()>();
    let (report, received_by_stalled) = tokio::sync::oneshot::channel();
    let stalled = thread::spawn({
        let queue = queue.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let broker = with_heartbeat(&redis_url(), &queue, Duration::from_millis(500));
            let mut receiver = runtime.block_on(open(&broker, &queue, true)).unwrap();
            let received = runtime.block_on(bodies(&mut *receiver, 4));
            report.send(received).unwrap();
            woken.recv().unwrap();
            let next = runtime.block_on(receiver.receive(10, POLL));
            // What it received may still be accepted: it was stored.
            runtime.block_on(receiver.accept()).unwrap();
            next
        }
    });
    assert_eq!(received_by_stalled.await.unwrap(), texts(0..4));
    let mut successor = eventually("the lease expires", || async { open(&successors, &queue, true).await.ok() }).await;
    assert_eq!(bodies(&mut *successor, 6).await, texts(0..6));
    wake.send(()).unwrap();
    let next = tokio::task::spawn_blocking(|| stalled.join().unwrap()).await.unwrap();
    assert!(matches!(next, Err(BrokerError::Taken(_))), "{next:?}");
    assert_eq!(bodies(&mut *successor, 4).await, texts(6..10));
    successor.accept().await.unwrap();
    assert_eq!(successors.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_reader_keeps_its_queue_without_receiving() {
    let (queue, rivals) = declared("kept").await;
    let client = RedisClient::connect(&redis_url()).await;
    let broker = with_heartbeat(&redis_url(), &queue, Duration::from_secs(1));
    let receiver = open(&broker, &queue, true).await.unwrap();
    let left = || async { client.command::<i64>(&["PTTL", &lease(&queue)]).await };
    for _ in 0..3 {
        eventually("the lease runs down", || async { (left().await < 800).then_some(()) }).await;
        eventually("the lease is extended", || async { (left().await > 900).then_some(()) }).await;
        assert!(matches!(open(&rivals, &queue, true).await, Err(BrokerError::Taken(_))));
    }
    drop(receiver);
    eventually("the lease is released", || async { (left().await == -2).then_some(()) }).await;
    open(&rivals, &queue, true).await.expect("the queue is free");
}

#[tokio::test]
async fn a_disconnected_reader_resumes_without_waiting_for_its_own_lease() {
    let queue = unique("cut");
    let proxy = TcpProxy::in_front_of(&redis_url());
    let broker = with_heartbeat(&proxy.url(&redis_url()), &queue, Duration::from_secs(600));
    broker.declare().await.unwrap();
    send(&broker, numbered_parcels(&queue, 0..3)).await;
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    proxy.cut();
    assert!(matches!(receiver.receive(1, POLL).await, Err(BrokerError::Unavailable(_))));
    drop(receiver);
    assert!(matches!(open(&broker, &queue, true).await, Err(BrokerError::Unavailable(_))));
    proxy.resume();
    assert!(matches!(
        open(&with_heartbeat(&redis_url(), &queue, POLL), &queue, true).await,
        Err(BrokerError::Taken(_))
    ));
    let reopen = || async { open(&broker, &queue, true).await.ok() };
    let mut receiver = eventually("the proxy listens again", reopen).await;
    assert_eq!(bodies(&mut *receiver, 3).await, texts(0..3));
}

/// A command that was delayed on a dead connection arrives after the reader has reconnected.
#[tokio::test]
async fn a_read_that_arrives_late_removes_nothing() {
    let (queue, elsewhere) = declared("late").await;
    let proxy = TcpProxy::in_front_of(&redis_url());
    let path = std::env::temp_dir().join(&queue);
    std::fs::write(&path, proxy.url(&redis_url())).unwrap();
    let address = Address::File(path.clone());
    let config = BrokerConfig { heartbeat: Duration::from_secs(2), ..BrokerConfig::new(address) };
    let broker = RedisBroker::new(config, one_queue(&queue));
    send(&elsewhere, numbered_parcels(&queue, 0..2)).await;
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    proxy.stall();
    assert!(matches!(receiver.receive(10, POLL).await, Err(BrokerError::Unavailable(_))));
    std::fs::write(&path, redis_url()).unwrap();
    assert_eq!(bodies(&mut *receiver, 2).await, texts(0..2));
    assert_eq!(receiver.receive(10, Duration::ZERO).await.unwrap(), [], "it knows that no more is pending");
    send(&elsewhere, numbered_parcels(&queue, 2..5)).await;
    proxy.resume();
    eventually("all of it has arrived", || async { (proxy.open() == 0).then_some(()) }).await;
    send(&elsewhere, numbered_parcels(&queue, 5..8)).await;
    assert_eq!(bodies(&mut *receiver, 6).await, texts(2..8));
    std::fs::remove_file(&path).unwrap();
}

/// A caller that cancels a receive does not know which messages were in flight.
#[tokio::test]
async fn a_cancelled_receive_loses_nothing_and_keeps_the_order() {
    let (queue, broker) = declared("impatient").await;
    let publishing = tokio::spawn({
        let (queue, broker) = (queue.clone(), broker.clone());
        async move {
            for n in 0..150 {
                send(&broker, numbered_parcels(&queue, n * 2..n * 2 + 2)).await;
            }
        }
    });
    let mut receiver = open(&broker, &queue, true).await.unwrap();
    let (mut landed, mut round) = (Vec::new(), 0);
    let reading = async {
        while without_repeats(&landed).len() < 300 {
            round += 1;
            let limit = Duration::from_micros(round * 173 % 3_000);
            if let Ok(received) = tokio::time::timeout(limit, receiver.receive(7, POLL)).await {
                landed.extend(received.unwrap().iter().map(text));
            }
            if round % 3 == 0 {
                receiver.accept().await.unwrap();
            }
        }
    };
    tokio::time::timeout(onceward_testkit::PATIENCE, reading).await.expect("everything comes");
    publishing.await.unwrap();
    assert_eq!(without_repeats(&landed), texts(0..300));
}

#[tokio::test]
async fn an_exclusive_reader_takes_over_from_shared_readers() {
    let (queue, broker) = declared("alone").await;
    send(&broker, numbered_parcels(&queue, 0..6)).await;
    let mut shared = [open(&broker, &queue, false).await.unwrap(), open(&broker, &queue, false).await.unwrap()];
    assert_eq!(bodies(&mut *shared[0], 2).await, texts(0..2));
    assert_eq!(bodies(&mut *shared[1], 2).await, texts(2..4));
    let mut alone = open(&broker, &queue, true).await.unwrap();
    assert!(matches!(shared[0].receive(1, POLL).await, Err(BrokerError::Taken(_))));
    assert!(matches!(open(&broker, &queue, false).await, Err(BrokerError::Taken(_))));
    assert_eq!(bodies(&mut *alone, 6).await, texts(0..6));
}

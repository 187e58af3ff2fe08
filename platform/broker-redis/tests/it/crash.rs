//! Server crashes and password changes.

use crate::support::*;
use onceward_broker::{Address, Broker, BrokerConfig, BrokerError, PublishOutcome};
use onceward_broker_redis::RedisBroker;
use onceward_testkit::{PATIENCE, eventually, private_redis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

#[tokio::test(flavor = "multi_thread")]
async fn accepted_messages_survive_a_killed_server_and_both_sides_recover() {
    let mut server = private_redis();
    let broker = broker(&server.url(), &one_queue("q"));
    broker.declare().await.unwrap();
    send(&broker, numbered_parcels("q", 0..50)).await;
    let mut receiver = open(&broker, "q", true).await.unwrap();
    let mut landed = bodies(&mut *receiver, 10).await;
    receiver.accept().await.unwrap();
    landed.extend(bodies(&mut *receiver, 10).await);
    server.kill().unwrap();
    assert!(matches!(broker.publish(numbered_parcels("q", 50..60)).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(receiver.receive(5, POLL).await, Err(BrokerError::Unavailable(_))));
    assert!(matches!(receiver.accept().await, Err(BrokerError::Unavailable(_))));
    server.restart().unwrap();
    let republished = || async { broker.publish(numbered_parcels("q", 50..60)).await.ok() };
    assert_eq!(eventually("publishing works again", republished).await, vec![PublishOutcome::Accepted; 10]);
    landed.extend(bodies(&mut *receiver, 50).await);
    assert_eq!(without_repeats(&landed), texts(0..60));
    receiver.accept().await.unwrap();
    assert_eq!(broker.waiting("q").await.unwrap(), Some(0));
}

/// The server is killed repeatedly in the middle of publishing; the publisher retries as the relay does.
#[tokio::test(flavor = "multi_thread")]
async fn order_survives_server_restarts() {
    let mut server = private_redis();
    let broker = broker(&server.url(), &one_queue("q"));
    broker.declare().await.unwrap();
    let published = Arc::new(AtomicU32::new(0));
    let publishing = tokio::spawn({
        let (broker, published) = (broker.clone(), published.clone());
        async move {
            for n in (0..1_000).step_by(5) {
                let sent = || async { broker.publish(numbered_parcels("q", n..n + 5)).await.ok() };
                eventually("publishing works again", sent).await;
                published.store(n + 5, Ordering::SeqCst);
            }
        }
    });
    let reading = tokio::spawn({
        let broker = broker.clone();
        async move {
            let (mut landed, mut receiver) = (Vec::new(), None);
            while without_repeats(&landed).len() < 1_000 {
                let mut current = match receiver.take() {
                    Some(current) => current,
                    None => eventually("the queue can be read", || async { open(&broker, "q", true).await.ok() }).await,
                };
                if let Ok(received) = current.receive(37, POLL).await {
                    landed.extend(received.iter().map(text));
                    receiver = current.accept().await.is_ok().then_some(current);
                }
            }
            landed
        }
    });
    for so_far in [100, 300, 500] {
        let more = || async { (published.load(Ordering::SeqCst) >= so_far).then_some(()) };
        eventually("more was published", more).await;
        server.kill().unwrap();
        server.restart().unwrap();
    }
    tokio::time::timeout(PATIENCE, publishing).await.expect("the task ends in time").unwrap();
    let landed = tokio::time::timeout(PATIENCE, reading).await.expect("the task ends in time").unwrap();
    assert_eq!(without_repeats(&landed), texts(0..1_000));
}

#[tokio::test]
async fn a_new_password_in_the_file_needs_no_restart() {
    let server = private_redis();
    let path = server.folder().join("address");
    std::fs::write(&path, server.url()).unwrap();
    let config = BrokerConfig { heartbeat: Duration::from_secs(3), ..BrokerConfig::new(Address::File(path.clone())) };
    let broker = Arc::new(RedisBroker::new(config, one_queue("q")));
    broker.declare().await.unwrap();
    let mut receiver = open(&broker, "q", true).await.unwrap();
    send(&broker, numbered_parcels("q", 0..3)).await;
    assert_eq!(bodies(&mut *receiver, 3).await, texts(0..3));

    let client = RedisClient::connect(&server.url()).await;
    client.command::<()>(&["CONFIG", "SET", "requirepass", "a new one"]).await;
    client.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    let refused = eventually("the old connections are gone", || async {
        match broker.publish(numbered_parcels("q", 3..6)).await {
            Err(error) if error.to_string().contains("connect") => Some(error),
            _ => None,
        }
    });
    let refused = refused.await;
    assert!(matches!(&refused, BrokerError::Unavailable(_)), "{refused:?}");
    std::fs::write(&path, format!("redis://:a%20new%20one@127.0.0.1:{}/", server.port())).unwrap();
    send(&broker, numbered_parcels("q", 3..6)).await;
    let mut received = Vec::new();
    while received.len() < 6 {
        received.extend(receiver.receive(10, POLL).await.unwrap_or_default().iter().map(text));
    }
    assert_eq!(received, texts(0..6));
}

//! A killed server, and a network that fails repeatedly while messages are published.

use crate::{
    mock,
    support::{
        bodies, broker, by_key, declared, events, numbered_parcels, one_queue, open, parcel, publish_until_accepted,
        read_without_repeats, send, server_url, short_timeouts, text, texts, unique,
    },
};
use onceward_broker::{Broker, BrokerError};
use onceward_broker_kafka::KafkaBroker;
use onceward_testkit::{PATIENCE, TcpProxy, private_kafka};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_and_the_broker_recovers() {
    if mock::must_skip("the mock cannot be killed") {
        return;
    }
    let (mut server, queue) = (tokio::task::spawn_blocking(private_kafka).await.expect("a server"), unique("killed"));
    let broker = KafkaBroker::new(short_timeouts(&server.url()), one_queue(&queue));
    broker.declare().await.expect("the topology can be declared");
    send(&broker, numbered_parcels(&queue, 0..20)).await;
    let mut receiver = open(&broker, &queue).await;
    assert_eq!(bodies(&mut receiver, 5).await, texts(0..5));
    receiver.accept().await.expect("accepted");

    server.kill().expect("the server can be killed");
    let failed = broker.publish(numbered_parcels(&queue, 20..30)).await;
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let failed = broker.ping().await;
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let until = Instant::now() + PATIENCE;
    while receiver.receive(100, Duration::from_millis(500)).await.is_ok() {
        assert!(Instant::now() < until, "the reader noticed nothing");
    }
    assert!(receiver.accept().await.is_err(), "a failed reader stays failed");
    let restarted = tokio::task::spawn_blocking(move || server.restart().map(|()| server));
    let _server = restarted.await.expect("the task does not panic").expect("the server starts again");

    publish_until_accepted(&broker, &numbered_parcels(&queue, 20..30)).await;
    assert_eq!(read_without_repeats(&broker, &queue, "29").await, texts(5..30));
}

/// Batches are in the producer, in flight and half confirmed when the network fails.
#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_their_order_over_a_flaky_network() {
    const KEYS: u32 = 12;
    const BATCHES: u32 = 12;
    let (queue, url) = (unique("flaky"), server_url().await);
    declared(&one_queue(&queue)).await;
    let proxy = TcpProxy::in_front_of(&url);
    let flaky = KafkaBroker::new(short_timeouts(&proxy.url(&url)), one_queue(&queue));
    let published = tokio::sync::watch::Sender::new(false);
    let publisher = |first: u32| {
        let (flaky, queue) = (&flaky, &queue);
        async move {
            for batch in 0..BATCHES {
                let parcels = (batch * 10..batch * 10 + 10).flat_map(|n| {
                    let keys = (0..KEYS).filter(move |key| key % 3 == first);
                    keys.map(move |key| parcel(&events(queue), "a", &format!("key-{key}"), format!("{key} {n}")))
                });
                publish_until_accepted(flaky, &parcels.collect::<Vec<_>>()).await;
            }
        }
    };
    let publishing = async {
        tokio::join!(publisher(0), publisher(1), publisher(2));
        published.send_replace(true);
    };
    let breaking = async {
        let mut over = published.subscribe();
        for round in 0_u32.. {
            let pause = |ms| Duration::from_millis(ms);
            // Fails at any moment; the end of publishing is the only event to wait for.
            if tokio::time::timeout(pause(20 + u64::from(round % 5) * 60), over.wait_for(|over| *over)).await.is_ok() {
                return;
            }
            if round % 6 == 5 {
                proxy.stall()
            } else {
                proxy.cut()
            }
            let down = if round % 6 == 5 { pause(2500) } else { pause(20) };
            let _ = tokio::time::timeout(down, over.wait_for(|over| *over)).await;
            proxy.resume();
        }
    };
    tokio::join!(publishing, breaking);

    let steady = broker(&url, &one_queue(&queue));
    let (mut receiver, mut landed, until) = (open(&steady, &queue).await, Vec::new(), Instant::now() + PATIENCE);
    let wanted = (KEYS * BATCHES * 10) as usize;
    while by_key(&landed).values().map(Vec::len).sum::<usize>() < wanted {
        assert!(Instant::now() < until, "{} received", landed.len());
        landed.extend(
            receiver.receive(200, Duration::from_secs(1)).await.expect("the queue can be read").iter().map(text),
        );
        receiver.accept().await.expect("accepted");
    }
    let keys = by_key(&landed);
    assert_eq!(keys.len(), KEYS as usize);
    for (key, numbers) in keys {
        assert_eq!(numbers, (0..BATCHES * 10).collect::<Vec<_>>(), "key {key}");
    }
}

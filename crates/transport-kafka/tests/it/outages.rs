//! A server that is killed, and a network that comes and goes while messages are published.

use crate::{
    mock,
    support::{
        bodies, broker, by_key, declared, events, first_times, impatient, numbers, open, parcel, send, send_in_spite,
        server_url, simple, text, texts, unique,
    },
};
use onceward_testkit::{PATIENCE, Proxy, private_kafka};
use onceward_transport::{Broker, BrokerError};
use onceward_transport_kafka::KafkaBroker;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_and_the_same_broker_goes_on() {
    if mock::leaves_out("it cannot be killed") {
        return;
    }
    let (mut server, queue) = (tokio::task::spawn_blocking(private_kafka).await.expect("a server"), unique("killed"));
    let broker = KafkaBroker::new(impatient(&server.url()), simple(&queue));
    broker.declare().await.expect("it can be declared");
    send(&broker, numbers(&queue, 0..20)).await;
    let mut receiver = open(&broker, &queue).await;
    assert_eq!(bodies(&mut receiver, 5).await, texts(0..5));
    receiver.accept().await.expect("accepted");

    server.kill().expect("it can be killed");
    let failed = broker.publish(numbers(&queue, 20..30)).await;
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let failed = broker.ping().await;
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let until = Instant::now() + PATIENCE;
    while receiver.receive(100, Duration::from_millis(500)).await.is_ok() {
        assert!(Instant::now() < until, "the reader noticed nothing");
    }
    assert!(receiver.accept().await.is_err(), "a reader that failed is over");
    let restarted = tokio::task::spawn_blocking(move || server.restart().map(|()| server));
    let _server = restarted.await.expect("no panic").expect("it starts again");

    send_in_spite(&broker, &numbers(&queue, 20..30)).await;
    assert_eq!(first_times(&broker, &queue, "29").await, texts(5..30));
}

/// Batches are in the producer, on the wire and half answered when the network breaks.
#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_their_order_over_a_network_that_breaks_again_and_again() {
    const KEYS: u32 = 12;
    const BATCHES: u32 = 12;
    let (queue, url) = (unique("flaky"), server_url().await);
    declared(&simple(&queue)).await;
    let proxy = Proxy::before(&url);
    let flaky = KafkaBroker::new(impatient(&proxy.url(&url)), simple(&queue));
    let published = tokio::sync::watch::Sender::new(false);
    let publisher = |first: u32| {
        let (flaky, queue) = (&flaky, &queue);
        async move {
            for batch in 0..BATCHES {
                let parcels = (batch * 10..batch * 10 + 10).flat_map(|n| {
                    let keys = (0..KEYS).filter(move |key| key % 3 == first);
                    keys.map(move |key| parcel(&events(queue), "a", &format!("key-{key}"), format!("{key} {n}")))
                });
                send_in_spite(flaky, &parcels.collect::<Vec<_>>()).await;
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
            // Breaks in the middle of whatever is going on; that it is over is all there is to wait for.
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

    let steady = broker(&url, &simple(&queue));
    let (mut receiver, mut landed, until) = (open(&steady, &queue).await, Vec::new(), Instant::now() + PATIENCE);
    let wanted = (KEYS * BATCHES * 10) as usize;
    while by_key(&landed).values().map(Vec::len).sum::<usize>() < wanted {
        assert!(Instant::now() < until, "{} came", landed.len());
        landed.extend(receiver.receive(200, Duration::from_secs(1)).await.expect("it can be read").iter().map(text));
        receiver.accept().await.expect("accepted");
    }
    let keys = by_key(&landed);
    assert_eq!(keys.len(), KEYS as usize);
    for (key, numbers) in keys {
        assert_eq!(numbers, (0..BATCHES * 10).collect::<Vec<_>>(), "key {key}");
    }
}

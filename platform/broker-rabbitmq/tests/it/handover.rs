//! One reader at a time, and message order across a handover.

use crate::support::{
    bodies, broker, declared, numbered_parcels, one_queue, open, send, server_url, take, texts, try_open, unique,
    with_queue,
};
use onceward_broker::{Broker, BrokerError};
use onceward_topology::Queue;

#[tokio::test]
async fn the_next_reader_starts_with_the_messages_the_last_did_not_accept() {
    let queue = unique("handover");
    let first = declared(&one_queue(&queue)).await;
    let second = broker(&server_url().await, &one_queue(&queue));
    send(&first, numbered_parcels(&queue, 0..300)).await;
    let mut reader = open(&first, &queue).await;
    assert_eq!(bodies(&mut *reader, 20).await, texts(0..20));
    reader.accept().await.expect("accepted");
    assert_eq!(bodies(&mut *reader, 50).await, texts(20..70));
    drop(reader);
    let mut reader = open(&second, &queue).await;
    let again = take(&mut *reader, 50).await;
    assert_eq!(again.iter().map(crate::support::text).collect::<Vec<_>>(), texts(20..70));
    assert!(again.iter().all(|arrival| arrival.redeliveries == 1), "they were delivered once before");
    reader.accept().await.expect("accepted");
    assert_eq!(bodies(&mut *reader, 200).await, texts(70..270));
}

/// Each dies without accepting what it read; the last one must receive everything in order.
#[tokio::test]
async fn order_survives_a_series_of_readers_that_die() {
    let queue = unique("row");
    let brokers = [declared(&one_queue(&queue)).await, broker(&server_url().await, &one_queue(&queue))];
    send(&brokers[0], numbered_parcels(&queue, 0..500)).await;
    for (n, count) in [10, 150, 40, 1, 199].into_iter().enumerate() {
        let mut reader = open(&brokers[n % 2], &queue).await;
        assert_eq!(
            bodies(&mut *reader, count).await,
            texts(0..u32::try_from(count).expect("a small number")),
            "reader {n}"
        );
    }
    let mut reader = open(&brokers[0], &queue).await;
    for first in [0, 100, 200, 300, 400] {
        assert_eq!(bodies(&mut *reader, 100).await, texts(first..first + 100));
        reader.accept().await.expect("accepted");
    }
}

/// Each stops right after an acknowledgement, while the broker sends it more messages.
#[tokio::test]
async fn order_survives_readers_that_stop_while_messages_are_in_flight() {
    for limit in [None, Some(100)] {
        let queue = unique("leaving");
        let mut work = Queue::work(&queue);
        work.delivery_limit = limit;
        let topology = with_queue(work);
        let brokers = [declared(&topology).await, broker(&server_url().await, &topology)];
        send(&brokers[0], numbered_parcels(&queue, 0..1_000)).await;
        for n in 0..20 {
            let mut reader = open(&brokers[n as usize % 2], &queue).await;
            assert_eq!(bodies(&mut *reader, 50).await, texts(n * 50..n * 50 + 50), "{limit:?}, reader {n}");
            reader.accept().await.expect("accepted");
        }
    }
}

#[tokio::test]
async fn a_queue_has_one_exclusive_reader_across_connections() {
    let queue = unique("alone");
    let here = declared(&one_queue(&queue)).await;
    let elsewhere = broker(&server_url().await, &one_queue(&queue));
    let reader = open(&here, &queue).await;
    for broker in [&here, &elsewhere, &here] {
        let rival = try_open(broker, &queue, true).await;
        assert!(matches!(&rival, Err(BrokerError::Taken(taken)) if *taken == queue), "{:?}", rival.err());
    }
    drop(reader);
    let reader = open(&elsewhere, &queue).await;
    assert!(matches!(try_open(&here, &queue, true).await, Err(BrokerError::Taken(_))));
    elsewhere.close().await;
    drop(reader);
    open(&here, &queue).await;
}

/// All of them check at the same time, so that only the broker can decide which is first.
#[tokio::test]
async fn one_of_many_concurrent_readers_gets_the_queue() {
    let queue = unique("race");
    let first = declared(&one_queue(&queue)).await;
    let url = server_url().await;
    let mut rivals: Vec<_> = (0..5).map(|_| broker(&url, &one_queue(&queue))).collect();
    rivals.push(first);
    futures_util::future::join_all(rivals.iter().map(|rival| rival.ping())).await;
    for _ in 0..5 {
        let opened = futures_util::future::join_all(rivals.iter().map(|rival| try_open(rival, &queue, true))).await;
        let won = opened.iter().filter(|opened| opened.is_ok()).count();
        assert!(won <= 1, "{won} read the queue");
        let other = opened
            .iter()
            .filter_map(|opened| opened.as_ref().err())
            .find(|error| !matches!(error, BrokerError::Taken(_)));
        assert!(other.is_none(), "{other:?}");
    }
}

//! One reader at a time, and nothing out of order between two.

use crate::support::{
    bodies, broker, declared, numbers, open, send, server_url, simple, take, texts, try_open, unique, with_queue,
};
use onceward_topology::Queue;
use onceward_transport::{Broker, BrokerError};

#[tokio::test]
async fn the_next_reader_begins_with_what_the_last_had_in_hand() {
    let queue = unique("handover");
    let first = declared(&simple(&queue)).await;
    let second = broker(&server_url().await, &simple(&queue));
    send(&first, numbers(&queue, 0..300)).await;
    let mut reader = open(&first, &queue).await;
    assert_eq!(bodies(&mut *reader, 20).await, texts(0..20));
    reader.accept().await.expect("accepted");
    assert_eq!(bodies(&mut *reader, 50).await, texts(20..70));
    drop(reader);
    let mut reader = open(&second, &queue).await;
    let again = take(&mut *reader, 50).await;
    assert_eq!(again.iter().map(crate::support::text).collect::<Vec<_>>(), texts(20..70));
    assert!(again.iter().all(|arrival| arrival.redeliveries == 1), "they were handed out once before");
    reader.accept().await.expect("accepted");
    assert_eq!(bodies(&mut *reader, 200).await, texts(70..270));
}

/// Each dies with what it read in hand; the last one must find everything in order.
#[tokio::test]
async fn order_survives_a_row_of_readers_that_die() {
    let queue = unique("row");
    let brokers = [declared(&simple(&queue)).await, broker(&server_url().await, &simple(&queue))];
    send(&brokers[0], numbers(&queue, 0..500)).await;
    for (n, count) in [10, 150, 40, 1, 199].into_iter().enumerate() {
        let mut reader = open(&brokers[n % 2], &queue).await;
        assert_eq!(bodies(&mut *reader, count).await, texts(0..u32::try_from(count).expect("few")), "reader {n}");
    }
    let mut reader = open(&brokers[0], &queue).await;
    for first in [0, 100, 200, 300, 400] {
        assert_eq!(bodies(&mut *reader, 100).await, texts(first..first + 100));
        reader.accept().await.expect("accepted");
    }
}

/// Each leaves right after the broker was told that it may send more, so that messages are on their way to nobody.
#[tokio::test]
async fn order_survives_readers_that_leave_in_the_middle() {
    for limit in [None, Some(100)] {
        let queue = unique("leaving");
        let mut work = Queue::work(&queue);
        work.delivery_limit = limit;
        let topology = with_queue(work);
        let brokers = [declared(&topology).await, broker(&server_url().await, &topology)];
        send(&brokers[0], numbers(&queue, 0..1_000)).await;
        for n in 0..20 {
            let mut reader = open(&brokers[n as usize % 2], &queue).await;
            assert_eq!(bodies(&mut *reader, 50).await, texts(n * 50..n * 50 + 50), "{limit:?}, reader {n}");
            reader.accept().await.expect("accepted");
        }
    }
}

#[tokio::test]
async fn a_queue_has_one_exclusive_reader_here_and_elsewhere() {
    let queue = unique("alone");
    let here = declared(&simple(&queue)).await;
    let elsewhere = broker(&server_url().await, &simple(&queue));
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

/// All of them look at the same time, so that only the broker can tell who was first.
#[tokio::test]
async fn of_many_who_ask_at_once_one_gets_the_queue() {
    let queue = unique("race");
    let first = declared(&simple(&queue)).await;
    let url = server_url().await;
    let mut rivals: Vec<_> = (0..5).map(|_| broker(&url, &simple(&queue))).collect();
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

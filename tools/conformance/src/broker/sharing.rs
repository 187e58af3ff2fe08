//! Several readers of one queue.

use super::{
    BrokerHarness,
    declaring::simple_topology,
    fixture::{BrokerFixture, PREFETCH},
    queue_reader::{ConformanceReader, text, texts, without_duplicates},
};
use onceward_broker::BrokerError;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const PAUSE: Duration = Duration::from_millis(20);

/// The second reader gets an error that the queue is taken, or waits in vain, or (on a bus that splits queues) takes
/// over the key: then it starts with the first reader's unaccepted messages.
pub async fn an_exclusive_reader_shares_no_key_and_its_successor_gets_its_unaccepted_messages(
    harness: &dyn BrokerHarness,
) {
    let first = BrokerFixture::declared(harness, simple_topology()).await;
    let second = first.another_process();
    first.send(first.numbers(0..60)).await;
    let mut reader = first.reader_with("work", true, 10).await;
    assert_eq!(reader.bodies(10).await, texts(0..10));
    reader.accept().await;
    assert_eq!(reader.bodies(5).await, texts(10..15));

    let mut rival = match second.try_reader("work", true, PREFETCH).await {
        Ok(rival) => Some(rival),
        Err(BrokerError::Taken(_)) => None,
        Err(error) => panic!("unexpected error: {error}"),
    };
    let mut received = Vec::new();
    if let Some(rival) = &mut rival {
        received = rival.take_rest().await.iter().map(|arrival| text(&arrival.body)).collect();
        assert_eq!(received, texts(10..10 + received.len() as u32), "delivered to two readers at once");
    }
    drop(reader);
    first.within_timeout("close", first.broker.close()).await;
    let mut successor = match rival {
        Some(rival) => rival,
        None => second.reader("work").await,
    };
    let missing = texts(10 + received.len() as u32..60);
    received.extend(successor.bodies_until(&missing).await);
    assert_eq!(without_duplicates(&received), texts(10..60));
}

/// Two processes compete for the queue. The one that has it reads for a while, dies with unaccepted messages, and
/// starts again. The messages that both recorded, in order, are what the database would have seen.
pub async fn a_handover_between_readers_loses_no_message_and_keeps_the_order(harness: &dyn BrokerHarness) {
    const MESSAGES: u32 = 300;
    let publisher = BrokerFixture::declared(harness, simple_topology()).await;
    let landed = Mutex::new(Vec::new());
    let publishing = async {
        for n in (0..MESSAGES).step_by(10) {
            publisher.send(publisher.numbers(n..n + 10)).await;
        }
    };
    let until = Instant::now() + publisher.timeout();
    let reading = |fixture| read_and_stop(fixture, &landed, MESSAGES as usize, until);
    tokio::join!(publishing, reading(publisher.another_process()), reading(publisher.another_process()));
    let landed = landed.into_inner();
    assert_eq!(without_duplicates(&landed), texts(0..MESSAGES));
}

async fn read_and_stop(fixture: BrokerFixture<'_>, landed: &Mutex<Vec<String>>, wanted: usize, until: Instant) {
    let count = || without_duplicates(&landed.lock()).len();
    while count() < wanted {
        assert!(Instant::now() < until, "only {} of {wanted} messages were recorded", count());
        let Ok(mut reader) = fixture.try_reader("work", true, 50).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for _ in 0..3 {
            let batch = receive_bodies(&mut reader).await;
            landed.lock().extend(batch);
            let _ = reader.try_accept().await;
        }
        receive_bodies(&mut reader).await;
        // A reader that is wrongly admitted now would get the messages behind the unaccepted ones.
        tokio::time::sleep(PAUSE).await;
    }
}

async fn receive_bodies(reader: &mut ConformanceReader) -> Vec<String> {
    let batch = reader.receive(30, Duration::from_millis(300)).await.unwrap_or_default();
    batch.iter().map(|arrival| text(&arrival.body)).collect()
}

pub async fn readers_that_share_a_queue_receive_every_message(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let another_process = fixture.another_process();
    let mut readers =
        [fixture.reader_with("work", false, 20).await, another_process.reader_with("work", false, 20).await];
    let parcels = (0..200).map(|n: u32| fixture.parcel("events", "a", &format!("key-{}", n % 10), n.to_string()));
    fixture.send(parcels.collect()).await;
    let (mut received, deadline) = (BTreeSet::new(), Instant::now() + fixture.timeout());
    while received.len() < 200 {
        assert!(Instant::now() < deadline, "only {} of 200 messages arrived", received.len());
        for reader in &mut readers {
            let batch = reader.receive(20, Duration::from_millis(200)).await.expect("the queue can be read");
            received.extend(batch.iter().map(|arrival| text(&arrival.body).parse::<u32>().expect("a number")));
            reader.accept().await;
        }
    }
    assert_eq!(received, (0..200).collect());
}

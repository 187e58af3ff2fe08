//! Receiving messages, and acknowledging or returning them.

use super::{
    BrokerHarness,
    declaring::simple_topology,
    fixture::{BrokerFixture, left_out},
    queue_reader::{text, texts, without_duplicates},
};
use onceward_broker::{Arrival, Capabilities};
use onceward_topology::{Exchange, Queue};
use std::time::Duration;

pub async fn receive_respects_its_limit_and_its_timeout(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let mut reader = fixture.reader("work").await;
    let none = reader.receive(10, Duration::from_millis(50)).await.expect("the queue can be read");
    assert_eq!(none, []);
    fixture.send(fixture.numbers(0..20)).await;
    let mut bodies = Vec::new();
    while bodies.len() < 20 {
        let batch = reader.receive(3, Duration::from_secs(5)).await.expect("the queue can be read");
        assert!((1..=3).contains(&batch.len()), "received {} of at most 3, after {} of 20", batch.len(), bodies.len());
        bodies.extend(batch.iter().map(|arrival| text(&arrival.body)));
    }
    assert_eq!(bodies, texts(0..20));
}

pub async fn prefetch_limits_unaccepted_messages(harness: &dyn BrokerHarness) {
    const PREFETCH: usize = 10;
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..45)).await;
    let mut reader = fixture.reader_with("work", true, PREFETCH).await;
    let mut bodies = Vec::new();
    while bodies.len() < 45 {
        let mut unaccepted = reader.take(1).await;
        unaccepted.extend(reader.take_rest().await);
        assert!(unaccepted.len() <= PREFETCH, "{} messages were delivered without being accepted", unaccepted.len());
        bodies.extend(unaccepted.iter().map(|arrival| text(&arrival.body)));
        reader.accept().await;
    }
    assert_eq!(bodies, texts(0..45));
}

pub async fn accepted_messages_are_not_redelivered(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..10)).await;
    let mut reader = fixture.reader("work").await;
    assert_eq!(reader.bodies(4).await, texts(0..4));
    reader.accept().await;
    assert_eq!(reader.bodies(6).await, texts(4..10));
    reader.accept().await;
    reader.accept().await;
    drop(reader);
    let another_process = fixture.another_process();
    another_process.send(another_process.numbers([10])).await;
    assert_eq!(another_process.reader("work").await.bodies(1).await, ["10"]);
}

pub async fn unaccepted_messages_are_redelivered_in_order(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..30)).await;
    let mut reader = fixture.reader("work").await;
    let first = reader.take(10).await;
    check_first_delivery(&first, fixture.broker.capabilities());
    reader.accept().await;
    assert_eq!(reader.bodies(10).await, texts(10..20));
    drop(reader);
    let mut successor = fixture.reader("work").await;
    let redelivered = successor.take(20).await;
    let bodies: Vec<String> = redelivered.iter().map(|arrival| text(&arrival.body)).collect();
    assert_eq!(bodies, texts(10..30));
    check_redelivery(&redelivered[..10], fixture.broker.capabilities());
    successor.accept().await;
    fixture.send(fixture.numbers([30])).await;
    assert_eq!(successor.bodies(1).await, ["30"]);
}

pub async fn returned_messages_are_redelivered_in_order(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..20)).await;
    let mut reader = fixture.reader("work").await;
    reader.take(3).await;
    reader.accept().await;
    reader.return_unaccepted().await;
    assert_eq!(reader.bodies(5).await, texts(3..8));
    reader.return_unaccepted().await;
    let redelivered = reader.take(17).await;
    let bodies: Vec<String> = redelivered.iter().map(|arrival| text(&arrival.body)).collect();
    assert_eq!(bodies, texts(3..20));
    check_redelivery(&redelivered[..5], fixture.broker.capabilities());
    reader.accept().await;
    drop(reader);
    fixture.send(fixture.numbers([20])).await;
    assert_eq!(fixture.reader("work").await.bodies(1).await, ["20"]);
}

fn check_first_delivery(arrivals: &[Arrival], capabilities: Capabilities) {
    if capabilities.counts_deliveries {
        assert!(arrivals.iter().all(|arrival| arrival.redeliveries == 0), "counted as redelivered: {arrivals:?}");
    }
}

fn check_redelivery(arrivals: &[Arrival], capabilities: Capabilities) {
    if capabilities.counts_deliveries {
        assert!(arrivals.iter().all(|arrival| arrival.redeliveries >= 1), "counted as first deliveries: {arrivals:?}");
    } else {
        left_out("it does not count deliveries; the rest of the case applies");
    }
}

/// One delivery more than the limit is tolerated: it is a backstop against receivers that die, and brokers count
/// differently.
pub async fn a_message_returned_too_often_goes_to_the_dead_letter_queue(harness: &dyn BrokerHarness) {
    const LIMIT: u16 = 3;
    let topology = simple_topology()
        .exchange(Exchange::topic("strict"))
        .exchange(Exchange::fanout("dlx"))
        .queue(Queue::work("limited").dead_letter("dlx").delivery_limit(LIMIT))
        .queue(Queue::dead_letter_store("dead"))
        .bind("strict", "#", "limited")
        .bind("dlx", "", "dead");
    let fixture = BrokerFixture::declared(harness, topology).await;
    if !fixture.broker.capabilities().limits_deliveries {
        return left_out("it does not limit deliveries");
    }
    fixture.send(vec![fixture.parcel("strict", "a", "key", "poison")]).await;
    let mut reader = fixture.reader("limited").await;
    let mut deliveries = 0;
    loop {
        let batch = reader.take_rest().await;
        if batch.is_empty() {
            break;
        }
        deliveries += batch.len();
        assert!(deliveries <= usize::from(LIMIT) + 1, "delivered {deliveries} times, the limit is {LIMIT}");
        reader.return_unaccepted().await;
    }
    assert!(deliveries > 0, "nothing was delivered");
    let mut dead = fixture.reader("dead").await;
    assert_eq!(dead.bodies(1).await, ["poison"]);
    dead.accept().await;
    fixture.send(vec![fixture.parcel("strict", "a", "key", "good")]).await;
    assert_eq!(reader.bodies(1).await, ["good"]);
}

pub async fn closing_while_a_queue_is_read_loses_nothing(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..200)).await;
    let mut reader = fixture.reader_with("work", true, 20).await;
    let mut landed = reader.bodies(20).await;
    reader.accept().await;
    landed.extend(reader.bodies(7).await);
    let reading = tokio::spawn(async move {
        let mut landed = Vec::new();
        // Ends with an error or with silence, but it ends: nothing more can arrive.
        while let Ok(batch) = reader.receive_once().await {
            if batch.is_empty() {
                break;
            }
            landed.extend(batch.iter().map(|arrival| text(&arrival.body)));
        }
        landed
    });
    fixture.within_timeout("close", fixture.broker.close()).await;
    landed.extend(fixture.within_timeout("the reader's end", reading).await.expect("the task does not panic"));
    landed.extend(fixture.another_process().reader("work").await.bodies_until(&texts(20..200)).await);
    assert_eq!(without_duplicates(&landed), texts(0..200));
}

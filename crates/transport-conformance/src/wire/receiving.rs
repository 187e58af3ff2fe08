//! Taking messages off, letting the broker forget them, and not.

use super::{
    Lab,
    declaring::simple,
    reader::{first_times, text, texts},
    stand::{Stand, left_out},
};
use onceward_topology::{Exchange, Queue};
use onceward_transport::{Arrival, Capabilities};
use std::time::Duration;

/// See the name.
pub async fn receive_keeps_to_its_limit_and_to_its_time(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    let mut reader = stand.reader("work").await;
    let none = reader.receive(10, Duration::from_millis(50)).await.expect("the queue can be read");
    assert_eq!(none, []);
    stand.send(stand.numbers(0..20)).await;
    let mut bodies = Vec::new();
    while bodies.len() < 20 {
        let batch = reader.receive(3, Duration::from_secs(5)).await.expect("the queue can be read");
        assert!((1..=3).contains(&batch.len()), "{} of 3, after {} of 20", batch.len(), bodies.len());
        bodies.extend(batch.iter().map(|arrival| text(&arrival.body)));
    }
    assert_eq!(bodies, texts(0..20));
}

/// See the name.
pub async fn prefetch_bounds_what_is_in_hand(lab: &dyn Lab) {
    const PREFETCH: usize = 10;
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..45)).await;
    let mut reader = stand.reader_with("work", true, PREFETCH).await;
    let mut bodies = Vec::new();
    while bodies.len() < 45 {
        let mut in_hand = reader.take(1).await;
        in_hand.extend(reader.rest().await);
        assert!(in_hand.len() <= PREFETCH, "{} messages were handed out, none was accepted", in_hand.len());
        bodies.extend(in_hand.iter().map(|arrival| text(&arrival.body)));
        reader.accept().await;
    }
    assert_eq!(bodies, texts(0..45));
}

/// See the name.
pub async fn what_was_accepted_does_not_come_again(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..10)).await;
    let mut reader = stand.reader("work").await;
    assert_eq!(reader.bodies(4).await, texts(0..4));
    reader.accept().await;
    assert_eq!(reader.bodies(6).await, texts(4..10));
    reader.accept().await;
    reader.accept().await;
    drop(reader);
    let elsewhere = stand.elsewhere();
    elsewhere.send(elsewhere.numbers([10])).await;
    assert_eq!(elsewhere.reader("work").await.bodies(1).await, ["10"]);
}

/// See the name.
pub async fn what_was_not_accepted_comes_again_in_order(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..30)).await;
    let mut reader = stand.reader("work").await;
    let first = reader.take(10).await;
    check_first(&first, stand.broker.capabilities());
    reader.accept().await;
    assert_eq!(reader.bodies(10).await, texts(10..20));
    drop(reader);
    let mut successor = stand.reader("work").await;
    let again = successor.take(20).await;
    let bodies: Vec<String> = again.iter().map(|arrival| text(&arrival.body)).collect();
    assert_eq!(bodies, texts(10..30));
    check_again(&again[..10], stand.broker.capabilities());
    successor.accept().await;
    stand.send(stand.numbers([30])).await;
    assert_eq!(successor.bodies(1).await, ["30"]);
}

/// See the name.
pub async fn what_is_given_back_comes_again_in_order(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..20)).await;
    let mut reader = stand.reader("work").await;
    reader.take(3).await;
    reader.accept().await;
    reader.give_back().await;
    assert_eq!(reader.bodies(5).await, texts(3..8));
    reader.give_back().await;
    let again = reader.take(17).await;
    let bodies: Vec<String> = again.iter().map(|arrival| text(&arrival.body)).collect();
    assert_eq!(bodies, texts(3..20));
    check_again(&again[..5], stand.broker.capabilities());
    reader.accept().await;
    drop(reader);
    stand.send(stand.numbers([20])).await;
    assert_eq!(stand.reader("work").await.bodies(1).await, ["20"]);
}

fn check_first(arrivals: &[Arrival], capabilities: Capabilities) {
    if capabilities.counts_deliveries {
        assert!(arrivals.iter().all(|arrival| arrival.redeliveries == 0), "handed out before? {arrivals:?}");
    }
}

fn check_again(arrivals: &[Arrival], capabilities: Capabilities) {
    if capabilities.counts_deliveries {
        assert!(arrivals.iter().all(|arrival| arrival.redeliveries >= 1), "counted as the first time: {arrivals:?}");
    } else {
        left_out("it does not count deliveries; only that part");
    }
}

/// One delivery more than the limit is forgiven: it is a backstop against receivers that die, and brokers count apart.
pub async fn a_message_given_back_too_often_goes_to_the_dead_letter_queue(lab: &dyn Lab) {
    const LIMIT: u16 = 3;
    let topology = simple()
        .exchange(Exchange::topic("strict"))
        .exchange(Exchange::fanout("dlx"))
        .queue(Queue::work("limited").dead_letter("dlx").delivery_limit(LIMIT))
        .queue(Queue::dead_letter_store("dead"))
        .bind("strict", "#", "limited")
        .bind("dlx", "", "dead");
    let stand = Stand::declared(lab, topology).await;
    if !stand.broker.capabilities().limits_deliveries {
        return left_out("it does not limit deliveries");
    }
    stand.send(vec![stand.parcel("strict", "a", "key", "poison")]).await;
    let mut reader = stand.reader("limited").await;
    let mut handed_out = 0;
    loop {
        let batch = reader.rest().await;
        if batch.is_empty() {
            break;
        }
        handed_out += batch.len();
        assert!(handed_out <= usize::from(LIMIT) + 1, "handed out {handed_out} times, the limit is {LIMIT}");
        reader.give_back().await;
    }
    assert!(handed_out > 0, "nothing came");
    let mut dead = stand.reader("dead").await;
    assert_eq!(dead.bodies(1).await, ["poison"]);
    dead.accept().await;
    stand.send(vec![stand.parcel("strict", "a", "key", "good")]).await;
    assert_eq!(reader.bodies(1).await, ["good"]);
}

/// See the name.
pub async fn closing_while_a_queue_is_read_loses_nothing(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..200)).await;
    let mut reader = stand.reader_with("work", true, 20).await;
    let mut landed = reader.bodies(20).await;
    reader.accept().await;
    landed.extend(reader.bodies(7).await);
    let reading = tokio::spawn(async move {
        let mut landed = Vec::new();
        // Ends by an error or by silence, but it ends: nothing more can come.
        while let Ok(batch) = reader.some().await {
            if batch.is_empty() {
                break;
            }
            landed.extend(batch.iter().map(|arrival| text(&arrival.body)));
        }
        landed
    });
    stand.soon("close", stand.broker.close()).await;
    landed.extend(stand.soon("the reader's end", reading).await.expect("no panic"));
    landed.extend(stand.elsewhere().reader("work").await.until(&texts(20..200)).await);
    assert_eq!(first_times(&landed), texts(0..200));
}

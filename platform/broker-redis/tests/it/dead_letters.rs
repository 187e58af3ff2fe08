//! Messages that reach the delivery limit.

use crate::support::*;
use onceward_broker::{Arrival, Broker, BrokerError, Receiver};
use onceward_testkit::redis_url;
use onceward_topology::{Exchange, Queue, Topology};

/// A queue with a delivery limit of two, and its dead-letter queues.
fn with_delivery_limit(name: &str) -> Topology {
    let [dead, other] = ["dead", "other"].map(|queue| format!("{name}.{queue}"));
    let dlx = format!("{name}.dlx");
    let mut topology = one_queue(name)
        .exchange(Exchange::topic(&dlx))
        .queue(Queue::dead_letter_store(&dead))
        .queue(Queue::dead_letter_store(&other))
        .bind(&dlx, "a", &dead)
        .bind(&dlx, "b.#", &other);
    topology.queues[0] = Queue::work(name).delivery_limit(2).dead_letter(&dlx);
    topology
}

/// Receives everything and gives it back, until the queue is empty. Returns the messages of each round.
async fn give_back_until_empty(receiver: &mut dyn Receiver) -> Vec<Vec<Arrival>> {
    let mut rounds = Vec::new();
    loop {
        let received = receiver.receive(10, std::time::Duration::from_millis(100)).await.unwrap();
        if received.is_empty() {
            return rounds;
        }
        assert!(rounds.len() < 10, "it never ends");
        rounds.push(received);
        receiver.return_unaccepted().await.unwrap();
    }
}

#[tokio::test]
async fn a_message_beyond_the_delivery_limit_is_routed_by_its_key() {
    for exclusive in [true, false] {
        let name = unique("with_delivery_limit");
        let broker = broker(&redis_url(), &with_delivery_limit(&name));
        broker.declare().await.unwrap();
        let events = format!("{name}.events");
        send(&broker, vec![parcel(&events, "a", "1"), parcel(&events, "b.c", "2")]).await;
        let mut receiver = open(&broker, &name, exclusive).await.unwrap();
        let rounds = give_back_until_empty(&mut *receiver).await;
        let redeliveries = rounds.iter().map(|round| round.iter().map(|arrival| arrival.redeliveries).collect());
        assert_eq!(redeliveries.collect::<Vec<Vec<u32>>>(), [[0, 0], [1, 1]]);
        assert_eq!(broker.waiting(&name).await.unwrap(), Some(0));
        for (queue, body, topic) in [("dead", "1", "a"), ("other", "2", "b.c")] {
            let queue = format!("{name}.{queue}");
            assert_eq!(broker.waiting(&queue).await.unwrap(), Some(1), "{queue}");
            let letter = take(&mut *open(&broker, &queue, true).await.unwrap(), 1).await.remove(0);
            assert_eq!((text(&letter), letter.redeliveries), (body.to_owned(), 0));
            assert_eq!(letter.header("x-death-reason"), Some("delivery_limit"));
            assert_eq!(letter.header("x-death-queue"), Some(&*name));
            assert_eq!(letter.header("x-topic"), Some(&*format!("{events}:{topic}")));
        }
    }
}

#[tokio::test]
async fn an_unroutable_dead_letter_goes_to_every_dead_letter_queue() {
    let name = unique("keyless");
    let broker = broker(&redis_url(), &with_delivery_limit(&name));
    broker.declare().await.unwrap();
    RedisClient::connect(&redis_url()).await.command::<String>(&["XADD", &stream(&name), "*", "body", "theirs"]).await;
    give_back_until_empty(&mut *open(&broker, &name, true).await.unwrap()).await;
    for queue in ["dead", "other"].map(|queue| format!("{name}.{queue}")) {
        assert_eq!(bodies(&mut *open(&broker, &queue, true).await.unwrap(), 1).await, ["theirs"]);
    }
}

#[tokio::test]
async fn the_other_messages_keep_their_order_when_one_is_dead_lettered() {
    let name = unique("ordered");
    let broker = broker(&redis_url(), &with_delivery_limit(&name));
    broker.declare().await.unwrap();
    let mut receiver = open(&broker, &name, true).await.unwrap();
    send(&broker, numbered_parcels(&name, 0..1)).await;
    take(&mut *receiver, 1).await;
    receiver.return_unaccepted().await.unwrap();
    send(&broker, numbered_parcels(&name, 1..4)).await;
    assert_eq!(bodies(&mut *receiver, 3).await, texts(0..3));
    receiver.return_unaccepted().await.unwrap();
    assert_eq!(bodies(&mut *receiver, 3).await, texts(1..4));
}

#[tokio::test]
async fn a_message_is_kept_while_its_dead_letter_queue_is_missing() {
    let name = unique("graveless");
    let broker = broker(&redis_url(), &with_delivery_limit(&name));
    broker.declare().await.unwrap();
    let client = RedisClient::connect(&redis_url()).await;
    let dead = format!("{name}.dead");
    client.command::<()>(&["DEL", &stream(&dead)]).await;
    send(&broker, numbered_parcels(&name, 0..1)).await;
    let mut receiver = open(&broker, &name, true).await.unwrap();
    for _ in 0..2 {
        take(&mut *receiver, 1).await;
        receiver.return_unaccepted().await.unwrap();
    }
    let missing = receiver.receive(1, POLL).await;
    assert!(matches!(&missing, Err(BrokerError::Missing(what)) if what.contains(&dead)), "{missing:?}");
    assert_eq!(client.length(&name).await, 1);
    broker.declare().await.unwrap();
    assert_eq!(receiver.receive(1, std::time::Duration::from_millis(100)).await.unwrap(), []);
    assert_eq!((client.length(&name).await, client.length(&dead).await), (0, 1));
}

#[tokio::test]
async fn without_a_dead_letter_exchange_a_message_is_redelivered_without_limit() {
    let name = unique("endless");
    let mut topology = one_queue(&name);
    topology.queues[0] = Queue::work(&name).delivery_limit(2);
    let broker = broker(&redis_url(), &topology);
    broker.declare().await.unwrap();
    send(&broker, numbered_parcels(&name, 0..1)).await;
    let mut receiver = open(&broker, &name, true).await.unwrap();
    for redeliveries in 0..6 {
        assert_eq!(take(&mut *receiver, 1).await[0].redeliveries, redeliveries);
        receiver.return_unaccepted().await.unwrap();
    }
}

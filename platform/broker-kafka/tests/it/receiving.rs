//! Receiving: bindings, offsets, and readers that join and leave.

use crate::{
    mock,
    support::{
        POLL, bodies, by_key, client, declared, events, numbered_parcels, one_queue, open, parcel, send, server_url,
        take, text, texts, unique,
    },
};
use onceward_broker::{Broker, Receiver, wire};
use onceward_testkit::{PATIENCE, eventually};
use onceward_topology::{Exchange, Queue, Topology};
use parking_lot::Mutex;
use rdkafka::{
    admin::AdminOptions,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer},
};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn every_queue_receives_what_its_bindings_match() {
    let name = unique("fan");
    let [all, orders, big] = ["all", "orders", "big"].map(|queue| format!("{name}.{queue}"));
    let topology = Topology::new()
        .exchange(Exchange::topic(events(&name)))
        .queue(Queue::work(&all))
        .queue(Queue::work(&orders))
        .queue(Queue::work(&big))
        .bind(events(&name), "#", &all)
        .bind(events(&name), "order.*", &orders)
        .bind(events(&name), "*.big", &big)
        .bind(events(&name), "order.big", &big);
    let broker = declared(&topology).await;
    let routing_keys = ["order.small", "order.big", "stock.big", "order.small.again", "order.big"];
    let parcels = routing_keys.iter().zip(0..).map(|(key, n)| parcel(&events(&name), key, "key", n.to_string()));
    send(&broker, parcels.collect()).await;
    for (queue, wanted) in [(&all, vec![0, 1, 2, 3, 4]), (&orders, vec![0, 1, 4]), (&big, vec![1, 2, 4])] {
        let mut receiver = open(&broker, queue).await;
        assert_eq!(bodies(&mut receiver, wanted.len()).await, texts(wanted), "{queue}");
        assert_eq!(
            receiver.receive(10, Duration::from_millis(300)).await.expect("the queue can be read"),
            [],
            "{queue}"
        );
    }
}

/// Skipped messages are never accepted, and must still not count as waiting for ever.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_no_binding_matches_are_skipped_for_good() {
    let name = unique("picky");
    let topology = Topology::new().exchange(Exchange::direct(events(&name))).queue(Queue::work(&name)).bind(
        events(&name),
        "wanted",
        &name,
    );
    let broker = declared(&topology).await;
    send(&broker, (0..500).map(|n| parcel(&events(&name), "other", &format!("key-{n}"), "x")).collect()).await;
    assert_eq!(broker.waiting(&name).await.expect("the broker responds"), Some(500), "records of other queues count");
    let receiver = tokio::sync::Mutex::new(open(&broker, &name).await);
    eventually("they are skipped", || async {
        let received =
            receiver.lock().await.receive(10, Duration::from_millis(100)).await.expect("the queue can be read");
        assert_eq!(received, []);
        (broker.waiting(&name).await.expect("the broker responds") == Some(0)).then_some(())
    })
    .await;
    send(&broker, vec![parcel(&events(&name), "wanted", "key", "wanted")]).await;
    assert_eq!(bodies(&mut receiver.into_inner(), 1).await, ["wanted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_move_only_by_accepting() {
    let queue = unique("offsets");
    let broker = declared(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    for _ in 0..2 {
        let mut receiver = open(&broker, &queue).await;
        assert_eq!(bodies(&mut receiver, 4).await, texts(0..4));
        assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(10));
    }
    let mut receiver = open(&broker, &queue).await;
    take(&mut receiver, 4).await;
    receiver.accept().await.expect("accepted");
    assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(6));
    assert_eq!(bodies(&mut receiver, 3).await, texts(4..7));
    receiver.return_unaccepted().await.expect("given back");
    assert_eq!(bodies(&mut receiver, 6).await, texts(4..10));
    drop(receiver);
    assert_eq!(bodies(&mut open(&broker, &queue).await, 6).await, texts(4..10));
}

/// A caller that stops waiting has received nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_receive_loses_nothing() {
    let queue = unique("impatient");
    let broker = declared(&one_queue(&queue)).await;
    let mut receiver = open(&broker, &queue).await;
    let publishing = async {
        for n in 0..100 {
            send(&broker, numbered_parcels(&queue, [n])).await;
        }
    };
    let reading = async {
        let (mut landed, until) = (Vec::new(), Instant::now() + PATIENCE);
        while landed.len() < 100 {
            assert!(Instant::now() < until, "{} received", landed.len());
            let short = tokio::time::timeout(Duration::from_millis(2), receiver.receive(7, POLL)).await;
            if let Ok(batch) = short {
                landed.extend(batch.expect("the queue can be read").iter().map(text));
                receiver.accept().await.expect("accepted");
            }
        }
        landed
    };
    let ((), landed) = tokio::join!(publishing, reading);
    assert_eq!(landed, texts(0..100));
}

/// A message of another program has no routing key to compare, so every queue of the topic receives it.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_other_programs_arrive() {
    let name = unique("foreign");
    let topology = Topology::new().exchange(Exchange::topic(events(&name))).queue(Queue::work(&name)).bind(
        events(&name),
        "order.*",
        &name,
    );
    let broker = declared(&topology).await;
    let producer: BaseProducer = client(&server_url().await).create().expect("a client");
    let headers = OwnedHeaders::new()
        .insert(Header { key: "CE-Type", value: Some("größe") })
        .insert(Header { key: "raw", value: Some(&[0xff_u8, b'x'][..]) })
        .insert(Header { key: "null", value: None::<&str> });
    let topic = events(&name);
    producer.send(BaseRecord::to(&topic).key("k").payload("full").headers(headers)).map_err(|(e, _)| e).expect("sent");
    producer.send(BaseRecord::<str, str>::to(&topic).key("k")).map_err(|(e, _)| e).expect("sent");
    tokio::task::spawn_blocking(move || producer.flush(PATIENCE))
        .await
        .expect("the task does not panic")
        .expect("the records are stored");

    let received = take(&mut open(&broker, &name).await, 2).await;
    assert_eq!((text(&received[0]).as_str(), text(&received[1]).as_str()), ("full", ""));
    let headers = [("CE-Type", "größe"), ("raw", "\u{fffd}x"), ("null", "")];
    for (name, value) in headers {
        assert_eq!(received[0].header(name), Some(value));
    }
    for arrival in &received {
        assert_eq!(arrival.header(wire::TOPIC), Some(format!("{topic}:").as_str()));
        assert_eq!(arrival.header(wire::ORDERING_KEY), Some("k"));
    }
}

/// Kafka deletes the offsets of an unused group. It then starts where its queue was declared.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_starts_where_its_queue_was_declared() {
    if mock::must_skip("the mock deletes no groups") {
        return;
    }
    let (old, new) = (unique("old"), unique("new"));
    let topology = one_queue(&old);
    let broker = declared(&topology).await;
    send(&broker, numbered_parcels(&old, 0..5)).await;
    let broker = declared(&topology.queue(Queue::work(&new)).bind(events(&old), "#", &new)).await;
    send(&broker, numbered_parcels(&old, 5..10)).await;
    let mut receiver = open(&broker, &new).await;
    assert_eq!(bodies(&mut receiver, 5).await, texts(5..10));
    receiver.accept().await.expect("accepted");
    drop(receiver);
    broker.close().await;
    eventually("the group is deleted", || async {
        let admin = crate::support::admin(&server_url().await);
        let deleted = admin.delete_groups(&[&new], &AdminOptions::new()).await.expect("the broker responds");
        deleted[0].is_ok().then_some(())
    })
    .await;
    assert_eq!(broker.declare().await.expect("the topology can be declared"), [""; 0]);
    assert_eq!(bodies(&mut open(&broker, &new).await, 5).await, texts(5..10));
}

/// Readers join and leave while messages are published. What they store, in the order in which they store it, has every
/// message, and each key in order.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_join_and_leave_lose_nothing_and_keep_the_order() {
    const KEYS: u32 = 20;
    const EACH: u32 = 100;
    if mock::must_skip("the mock's groups take seconds to rebalance") {
        return;
    }
    let queue = unique("rebalance");
    let broker = declared(&one_queue(&queue)).await;
    let landed: Mutex<Vec<String>> = Mutex::default();
    let until = Instant::now() + PATIENCE;
    let all_landed = || {
        assert!(Instant::now() < until, "{} received", landed.lock().len());
        by_key(&*landed.lock()).values().map(Vec::len).sum::<usize>() == (KEYS * EACH) as usize
    };
    let publishing = async {
        for n in 0..EACH {
            let batch = (0..KEYS).map(|key| parcel(&events(&queue), "a", &format!("key-{key}"), format!("{key} {n}")));
            send(&broker, batch.collect()).await;
        }
    };
    let land = async |receiver: &mut Box<dyn Receiver>| {
        let Ok(batch) = receiver.receive(50, Duration::from_millis(100)).await else { return false };
        landed.lock().extend(batch.iter().map(text));
        receiver.accept().await.is_ok()
    };
    let steady = async {
        while !all_landed() {
            let mut receiver = open(&broker, &queue).await;
            while !all_landed() && land(&mut receiver).await {}
        }
    };
    // Stops with unaccepted messages, and joins again.
    let restarting = async {
        while !all_landed() {
            let mut receiver = open(&broker, &queue).await;
            for _ in 0..5 {
                land(&mut receiver).await;
            }
            let in_hand = receiver.receive(50, Duration::from_millis(100)).await.unwrap_or_default();
            landed.lock().extend(in_hand.iter().map(text));
        }
    };
    tokio::join!(publishing, steady, restarting);
    let keys = by_key(&*landed.lock());
    assert_eq!(keys.len(), KEYS as usize);
    assert!(keys.values().all(|numbers| *numbers == (0..EACH).collect::<Vec<_>>()), "{keys:?}");
}

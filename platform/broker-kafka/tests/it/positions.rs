//! Positions stored outside Kafka, after offsets and topics in Kafka were deleted or changed.

use crate::{
    mock,
    support::{
        POLL, admin, bodies, client, declared, events, numbered_parcels, one_queue, open, send, server_url, texts,
        unique,
    },
};
use async_trait::async_trait;
use onceward_broker::{Address, Broker, BrokerConfig, BrokerError, Position, PositionStore};
use onceward_broker_kafka::KafkaBroker;
use onceward_testkit::{PATIENCE, eventually};
use onceward_topology::Topology;
use parking_lot::Mutex;
use rdkafka::{
    Offset, TopicPartitionList,
    admin::AdminOptions,
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use std::{collections::HashMap, sync::Arc, time::Instant};

/// Positions in memory, with the rules of those in the database.
#[derive(Default)]
struct InMemoryPositions(Mutex<HashMap<(String, String, i32), Position>>);

#[async_trait]
impl PositionStore for InMemoryPositions {
    async fn load(&self, queues: &[String]) -> Result<Vec<Position>, BrokerError> {
        let stored = self.0.lock();
        Ok(stored.values().filter(|position| queues.contains(&position.queue)).cloned().collect())
    }

    async fn save(&self, positions: &[Position], replace: bool) -> Result<(), BrokerError> {
        let mut stored = self.0.lock();
        for position in positions {
            let key = (position.queue.clone(), position.source.clone(), position.partition);
            let known = stored.entry(key).or_insert_with(|| position.clone());
            if replace || position.next_offset > known.next_offset {
                *known = position.clone();
            }
        }
        Ok(())
    }
}

/// Declares a topology and returns a broker that stores positions.
async fn broker_with_positions(topology: &Topology) -> KafkaBroker {
    broker_storing_in(topology, Arc::default()).await
}

async fn broker_storing_in(topology: &Topology, positions: Arc<InMemoryPositions>) -> KafkaBroker {
    declared(topology).await.close().await;
    let config = BrokerConfig::new(Address::Url(server_url().await));
    KafkaBroker::new(config, topology.clone()).with_positions(positions)
}

async fn read_all(broker: &KafkaBroker, queue: &str, wanted: &[String]) {
    let mut receiver = open(broker, queue).await;
    assert_eq!(bodies(&mut receiver, wanted.len()).await, wanted);
    receiver.accept().await.expect("accepted");
}

async fn delete_group(group: &str) {
    let admin = admin(&server_url().await);
    eventually("the group is deleted", || async {
        let deleted = admin.delete_groups(&[group], &AdminOptions::new()).await.expect("the broker responds");
        deleted[0].is_ok().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_continues_from_its_positions() {
    if mock::must_skip("the mock deletes no groups") {
        return;
    }
    let queue = unique("deleted");
    let broker = broker_with_positions(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    read_all(&broker, &queue, &texts(0..10)).await;
    delete_group(&queue).await;
    assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(0));
    send(&broker, numbered_parcels(&queue, 10..15)).await;
    assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(5));
    read_all(&broker, &queue, &texts(10..15)).await;
    assert_eq!(broker.waiting(&queue).await.expect("the broker responds"), Some(0));
}

/// To read a queue again, an operator must delete the positions, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_offset_was_moved_back_repeats_nothing() {
    if mock::must_skip("the offsets of the mock cannot be moved") {
        return;
    }
    let queue = unique("reset");
    let broker = broker_with_positions(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    read_all(&broker, &queue, &texts(0..10)).await;
    move_offsets(&queue, 0).await;
    send(&broker, numbered_parcels(&queue, 10..12)).await;
    read_all(&broker, &queue, &texts(10..12)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_offset_was_moved_forward_skips_messages() {
    if mock::must_skip("the offsets of the mock cannot be moved") {
        return;
    }
    let queue = unique("skip");
    let broker = broker_with_positions(&one_queue(&queue)).await;
    send(&broker, numbered_parcels(&queue, 0..5)).await;
    read_all(&broker, &queue, &texts(0..5)).await;
    send(&broker, numbered_parcels(&queue, 5..9)).await;
    move_offsets(&queue, 8).await;
    read_all(&broker, &queue, &texts(8..9)).await;
}

/// The new topic is shorter than the old one was.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_topic_shorter_than_the_old_one_is_read_from_its_beginning() {
    a_recreated_topic_is_read_from_its_beginning(3, true).await;
}

/// The position in the old topic is in the middle of the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_topic_longer_than_the_old_one_is_read_from_its_beginning() {
    a_recreated_topic_is_read_from_its_beginning(30, true).await;
}

/// The position comes from the group's offset, which another program may have committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_topic_of_which_nothing_has_landed_is_read_from_its_beginning() {
    a_recreated_topic_is_read_from_its_beginning(30, false).await;
}

/// Opens the queue without reading anything, until its position is stored.
async fn open_only(broker: &KafkaBroker, queue: &str, positions: &InMemoryPositions) {
    let mut receiver = open(broker, queue).await;
    let until = Instant::now() + PATIENCE;
    while positions.load(&[queue.to_owned()]).await.expect("they can be loaded").is_empty() {
        assert!(Instant::now() < until, "no position is stored");
        assert!(
            receiver.receive(1, POLL).await.expect("the queue can be read").is_empty(),
            "all of it was read before"
        );
    }
}

async fn a_recreated_topic_is_read_from_its_beginning(messages: u32, has_landed: bool) {
    if mock::must_skip("the mock deletes no topics") {
        return;
    }
    let queue = unique("anew");
    let topology = one_queue(&queue);
    let positions: Arc<InMemoryPositions> = Arc::default();
    let broker = broker_storing_in(&topology, positions.clone()).await;
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    if has_landed {
        read_all(&broker, &queue, &texts(0..10)).await;
    } else {
        let other = KafkaBroker::new(BrokerConfig::new(Address::Url(server_url().await)), topology.clone());
        read_all(&other, &queue, &texts(0..10)).await;
        other.close().await;
        open_only(&broker, &queue, &positions).await;
    }
    let deleted = admin(&server_url().await).delete_topics(&[&events(&queue)], &AdminOptions::new()).await;
    assert!(deleted.expect("the broker responds")[0].is_ok());
    // Another program may create it, too; the queue's recorded start is then that of the old one.
    eventually("the topic is gone", || async {
        let differences = broker.check().await.ok()?;
        differences.iter().any(|difference| difference.found == "nothing").then_some(())
    })
    .await;
    crate::support::create_topic(&server_url().await, &events(&queue), 8, &[]).await;
    let messages = 100..100 + messages;
    eventually("the new topic accepts messages", || async { broker.check().await.ok().map(drop) }).await;
    let second = KafkaBroker::new(BrokerConfig::new(Address::Url(server_url().await)), topology);
    crate::support::publish_until_accepted(&second, &numbered_parcels(&queue, messages.clone())).await;
    read_all(&broker, &queue, &texts(messages.clone())).await;
    // The positions are now those of the new topic.
    delete_group(&queue).await;
    crate::support::publish_until_accepted(&second, &numbered_parcels(&queue, 900..903)).await;
    read_all(&broker, &queue, &texts(900..903)).await;
}

/// Moves the offsets of all partitions that hold anything, as `kafka-consumer-groups --reset-offsets` does.
async fn move_offsets(queue: &str, offset: i64) {
    let (url, group, topic) = (server_url().await, queue.to_owned(), events(queue));
    let moving = move || {
        let mut list = TopicPartitionList::new();
        let consumer: BaseConsumer = client(&url).set("group.id", &group).create().expect("a client");
        for partition in 0..8 {
            let limit = std::time::Duration::from_secs(10);
            let (_, end) = consumer.fetch_watermarks(&topic, partition, limit).expect("the broker responds");
            list.add_partition_offset(&topic, partition, Offset::Offset(offset.min(end))).expect("an offset");
        }
        consumer.commit(&list, CommitMode::Sync).is_ok().then_some(())
    };
    eventually("the offsets are moved", || {
        let moving = moving.clone();
        async move { tokio::task::spawn_blocking(moving).await.expect("the task does not panic") }
    })
    .await;
}

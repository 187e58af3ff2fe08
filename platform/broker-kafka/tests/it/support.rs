//! Test topologies on a server, and plain Kafka clients that bypass the bus.

use crate::mock;
use bytes::Bytes;
use onceward_broker::{
    Address, Arrival, Broker, BrokerConfig, BrokerError, Parcel, PublishOutcome, ReceiveOptions, Receiver, wire,
};
use onceward_broker_kafka::KafkaBroker;
use onceward_testkit::{PATIENCE, kafka_url};
use onceward_topology::{Exchange, Queue, Topic, Topology};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};
use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// How long one `receive` waits.
pub const POLL: Duration = Duration::from_secs(1);
pub const PREFETCH: usize = 200;

/// The shared server; starting it blocks.
pub async fn server_url() -> String {
    let url = || mock::shared().map_or_else(kafka_url, |mock| mock.url().to_owned());
    tokio::task::spawn_blocking(url).await.expect("a server")
}

/// A unique name.
pub fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7().simple())
}

/// An exchange `<name>.events` with one queue `<name>` that receives every message.
pub fn one_queue(name: &str) -> Topology {
    Topology::new().exchange(Exchange::topic(events(name))).queue(Queue::work(name)).bind(events(name), "#", name)
}

pub fn events(name: &str) -> String {
    format!("{name}.events")
}

/// Settings that detect failures quickly.
pub fn short_timeouts(url: &str) -> BrokerConfig {
    BrokerConfig {
        connect_timeout: Duration::from_secs(2),
        heartbeat: Duration::from_secs(2),
        publish_timeout: Duration::from_secs(3),
        ..BrokerConfig::new(Address::Url(url.to_owned()))
    }
}

pub fn broker(url: &str, topology: &Topology) -> KafkaBroker {
    KafkaBroker::new(BrokerConfig::new(Address::Url(url.to_owned())), topology.clone())
}

/// Declares a topology on the shared server.
pub async fn declared(topology: &Topology) -> KafkaBroker {
    if let Some(mock) = mock::shared() {
        mock.create_topics(topology);
    }
    let broker = broker(&server_url().await, topology);
    broker.declare().await.expect("the topology can be declared");
    broker
}

pub fn parcel(exchange: &str, routing_key: &str, ordering_key: &str, body: impl Into<Bytes>) -> Parcel {
    let topic = Topic::new(exchange, routing_key);
    let headers = [(wire::TOPIC, topic.to_string()), (wire::ORDERING_KEY, ordering_key.to_owned())];
    Parcel {
        id: Uuid::now_v7(),
        topic: topic.into(),
        ordering_key: Some(ordering_key.to_owned()),
        priority: 0,
        headers: headers.into_iter().collect(),
        body: body.into(),
        expected: true,
    }
}

/// Messages of one key for a queue of [`one_queue`], whose bodies are these numbers.
pub fn numbered_parcels(queue: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<Parcel> {
    numbers.into_iter().map(|n| parcel(&events(queue), "a", "key", n.to_string())).collect()
}

/// Publishes, and expects every message to be accepted.
pub async fn send(broker: &KafkaBroker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    assert_eq!(broker.publish(parcels).await.expect("the broker responds"), vec![PublishOutcome::Accepted; count]);
}

/// Retries until the broker answers, as the relay does.
pub async fn publish_until_accepted(broker: &KafkaBroker, parcels: &[Parcel]) {
    let until = Instant::now() + PATIENCE;
    loop {
        match broker.publish(parcels.to_vec()).await {
            Ok(verdicts) => return assert_eq!(verdicts, vec![PublishOutcome::Accepted; parcels.len()]),
            Err(BrokerError::Unavailable(why)) => assert!(Instant::now() < until, "the broker never recovered: {why}"),
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn open(broker: &KafkaBroker, queue: &str) -> Box<dyn Receiver> {
    let reading = ReceiveOptions { queue: queue.to_owned(), exclusive: true, prefetch: PREFETCH };
    broker.open(reading).await.expect("the queue can be opened")
}

pub fn text(arrival: &Arrival) -> String {
    String::from_utf8(arrival.body.to_vec()).expect("bodies are text")
}

/// The next `count` messages, not accepted.
pub async fn take(receiver: &mut Box<dyn Receiver>, count: usize) -> Vec<Arrival> {
    let (mut taken, until) = (Vec::new(), Instant::now() + PATIENCE);
    while taken.len() < count {
        assert!(Instant::now() < until, "{} of {count} received", taken.len());
        taken.extend(receiver.receive(count - taken.len(), POLL).await.expect("the queue can be read"));
    }
    taken
}

pub async fn bodies(receiver: &mut Box<dyn Receiver>, count: usize) -> Vec<String> {
    take(receiver, count).await.iter().map(text).collect()
}

pub fn texts(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}

/// Reads a queue until `last` arrives. Returns the bodies without repeats, as the database stores them.
pub async fn read_without_repeats(broker: &KafkaBroker, queue: &str, last: &str) -> Vec<String> {
    let (mut receiver, mut landed) = (open(broker, queue).await, Vec::new());
    let until = Instant::now() + PATIENCE;
    while !landed.iter().any(|body| body == last) {
        assert!(Instant::now() < until, "{landed:?}");
        landed.extend(receiver.receive(100, POLL).await.expect("the queue can be read").iter().map(text));
        receiver.accept().await.expect("accepted");
    }
    let mut seen = HashSet::new();
    landed.retain(|body| seen.insert(body.clone()));
    landed
}

/// Bytes that cannot be compressed.
pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some(*state as u8)
    };
    std::iter::repeat(()).scan(seed, |state, ()| step(state)).take(bytes).collect()
}

/// Bodies `<key> <number>` by key without repeats, as the database stores them.
pub fn by_key<'a>(bodies: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, Vec<u32>> {
    let (mut seen, mut keys) = (HashSet::new(), BTreeMap::<String, Vec<u32>>::new());
    for body in bodies.into_iter().filter(|body| seen.insert(*body)) {
        let (key, number) = body.split_once(' ').expect("a key and a number");
        keys.entry(key.to_owned()).or_default().push(number.parse().expect("a number"));
    }
    keys
}

/// The settings of a plain Kafka client.
pub fn client(url: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", url.trim_start_matches("kafka://"));
    config
}

pub fn admin(url: &str) -> AdminClient<DefaultClientContext> {
    client(url).create().expect("a client")
}

/// Creates a topic as another program would.
pub async fn create_topic(url: &str, name: &str, partitions: i32, settings: &[(&str, &str)]) {
    let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
    let created = admin(url).create_topics([&new], &AdminOptions::new()).await.expect("the broker responds");
    assert_eq!(created, [Ok(name.to_owned())]);
}

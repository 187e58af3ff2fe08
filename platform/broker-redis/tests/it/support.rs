//! Test topologies on a real server, and a plain Redis client that bypasses the bus.

use bytes::Bytes;
use onceward_broker::{
    Address, Arrival, Broker, BrokerConfig, BrokerError, Parcel, PublishOutcome, ReceiveOptions, Receiver, wire,
};
use onceward_broker_redis::RedisBroker;
use onceward_testkit::{PATIENCE, redis_url};
use onceward_topology::{Exchange, Queue, Topic, Topology};
use redis::{FromRedisValue, aio::MultiplexedConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// How long one `receive` waits.
pub const POLL: Duration = Duration::from_secs(1);

/// A unique name.
pub fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7().simple())
}

/// An exchange `<name>.events` with one queue `<name>` that receives every message.
pub fn one_queue(name: &str) -> Topology {
    let exchange = format!("{name}.events");
    Topology::new().exchange(Exchange::topic(&exchange)).queue(Queue::work(name)).bind(&exchange, "#", name)
}

/// A broker with settings that detect failures quickly.
pub fn broker(url: &str, topology: &Topology) -> Arc<RedisBroker> {
    let config = BrokerConfig { heartbeat: Duration::from_secs(3), ..BrokerConfig::new(Address::Url(url.to_owned())) };
    Arc::new(RedisBroker::new(config, topology.clone()))
}

/// Declares a queue on the shared server.
pub async fn declared(name: &str) -> (String, Arc<RedisBroker>) {
    let queue = unique(name);
    let broker = broker(&redis_url(), &one_queue(&queue));
    broker.declare().await.expect("the topology can be declared");
    (queue, broker)
}

pub fn parcel(exchange: &str, key: &str, body: impl Into<Bytes>) -> Parcel {
    Parcel {
        id: Uuid::now_v7(),
        topic: Topic::new(exchange, key).into(),
        ordering_key: Some("key".to_owned()),
        priority: 0,
        headers: [(wire::ORDERING_KEY, "key")].into_iter().collect(),
        body: body.into(),
        expected: true,
    }
}

/// Messages for a queue of [`one_queue`], whose bodies are these numbers.
pub fn numbered_parcels(queue: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<Parcel> {
    numbers.into_iter().map(|n| parcel(&format!("{queue}.events"), "a", n.to_string())).collect()
}

pub async fn send(broker: &RedisBroker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    assert_eq!(broker.publish(parcels).await.expect("the broker responds"), vec![PublishOutcome::Accepted; count]);
}

pub async fn open(broker: &RedisBroker, queue: &str, exclusive: bool) -> Result<Box<dyn Receiver>, BrokerError> {
    broker.open(ReceiveOptions { queue: queue.to_owned(), exclusive, prefetch: 1_000 }).await
}

/// The next `count` messages, none of them accepted.
pub async fn take(receiver: &mut dyn Receiver, count: usize) -> Vec<Arrival> {
    let (mut taken, until) = (Vec::new(), Instant::now() + PATIENCE);
    while taken.len() < count {
        assert!(Instant::now() < until, "{} of {count} received", taken.len());
        taken.extend(receiver.receive(count - taken.len(), POLL).await.expect("the queue can be read"));
    }
    taken
}

/// Their bodies.
pub async fn bodies(receiver: &mut dyn Receiver, count: usize) -> Vec<String> {
    take(receiver, count).await.iter().map(text).collect()
}

pub fn text(arrival: &Arrival) -> String {
    String::from_utf8(arrival.body.to_vec()).expect("bodies of this test are text")
}

pub fn texts(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}

/// Removes repeated bodies.
pub fn without_repeats(bodies: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    bodies.iter().filter(|body| seen.insert(body.as_str())).cloned().collect()
}

pub fn stream(queue: &str) -> String {
    format!("onceward:{{{queue}}}:stream")
}

/// A plain Redis client.
pub struct RedisClient(MultiplexedConnection);

impl RedisClient {
    pub async fn connect(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a valid URL");
        Self(client.get_multiplexed_async_connection().await.expect("the server can be reached"))
    }

    /// `command(&["XLEN", "key"])`
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| _ = command.arg(word));
        command.query_async(&mut self.0.clone()).await.expect("the broker responds")
    }

    pub async fn length(&self, queue: &str) -> u64 {
        self.command(&["XLEN", &stream(queue)]).await
    }

    /// The consumer names in a queue's group.
    pub async fn consumers(&self, queue: &str) -> Vec<String> {
        let consumers: Vec<std::collections::HashMap<String, redis::Value>> =
            self.command(&["XINFO", "CONSUMERS", &stream(queue), queue]).await;
        let names = consumers.into_iter().map(|mut consumer| consumer.remove("name").expect("each has one"));
        names.map(|name| redis::from_redis_value(name).expect("a text")).collect()
    }
}

//! A topology of one's own on a real server, and a way past the bus to look at it.

use bytes::Bytes;
use onceward_testkit::{PATIENCE, redis_url};
use onceward_topology::{Exchange, Queue, Topic, Topology};
use onceward_transport::{
    Address, Arrival, Broker, BrokerConfig, BrokerError, Parcel, Reading, Receiver, Verdict, wire,
};
use onceward_transport_redis::RedisBroker;
use redis::{FromRedisValue, aio::MultiplexedConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// How long one look at a queue lasts.
pub const LOOK: Duration = Duration::from_secs(1);

/// Names that nobody else uses.
pub fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7().simple())
}

/// An exchange `<name>.events` with one queue `<name>`, which gets everything.
pub fn simple(name: &str) -> Topology {
    let exchange = format!("{name}.events");
    Topology::new().exchange(Exchange::topic(&exchange)).queue(Queue::work(name)).bind(&exchange, "#", name)
}

/// A broker with settings that notice soon.
pub fn broker(url: &str, topology: &Topology) -> Arc<RedisBroker> {
    let config = BrokerConfig { heartbeat: Duration::from_secs(3), ..BrokerConfig::new(Address::Url(url.to_owned())) };
    Arc::new(RedisBroker::new(config, topology.clone()))
}

/// A queue on the shared server that is declared.
pub async fn declared(name: &str) -> (String, Arc<RedisBroker>) {
    let queue = unique(name);
    let broker = broker(&redis_url(), &simple(&queue));
    broker.declare().await.expect("it can be declared");
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

/// Messages for a queue made by [`simple`], whose bodies are these numbers.
pub fn numbers(queue: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<Parcel> {
    numbers.into_iter().map(|n| parcel(&format!("{queue}.events"), "a", n.to_string())).collect()
}

pub async fn send(broker: &RedisBroker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    assert_eq!(broker.publish(parcels).await.expect("it answers"), vec![Verdict::Accepted; count]);
}

pub async fn open(broker: &RedisBroker, queue: &str, exclusive: bool) -> Result<Box<dyn Receiver>, BrokerError> {
    broker.open(Reading { queue: queue.to_owned(), exclusive, prefetch: 1_000 }).await
}

/// The next `count` messages, none of them accepted.
pub async fn take(receiver: &mut dyn Receiver, count: usize) -> Vec<Arrival> {
    let (mut taken, until) = (Vec::new(), Instant::now() + PATIENCE);
    while taken.len() < count {
        assert!(Instant::now() < until, "{} of {count} came", taken.len());
        taken.extend(receiver.receive(count - taken.len(), LOOK).await.expect("it can be read"));
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

/// Without those that came before.
pub fn first_times(bodies: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    bodies.iter().filter(|body| seen.insert(body.as_str())).cloned().collect()
}

pub fn stream(queue: &str) -> String {
    format!("onceward:{{{queue}}}:stream")
}

/// Past the bus.
pub struct Raw(MultiplexedConnection);

impl Raw {
    pub async fn to(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a valid URL");
        Self(client.get_multiplexed_async_connection().await.expect("it can be reached"))
    }

    /// `ask(&["XLEN", "key"])`
    pub async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| _ = command.arg(word));
        command.query_async(&mut self.0.clone()).await.expect("it answers")
    }

    pub async fn length(&self, queue: &str) -> u64 {
        self.ask(&["XLEN", &stream(queue)]).await
    }

    /// The names in a queue's group.
    pub async fn consumers(&self, queue: &str) -> Vec<String> {
        let consumers: Vec<std::collections::HashMap<String, redis::Value>> =
            self.ask(&["XINFO", "CONSUMERS", &stream(queue), queue]).await;
        let names = consumers.into_iter().map(|mut consumer| consumer.remove("name").expect("each has one"));
        names.map(|name| redis::from_redis_value(name).expect("a text")).collect()
    }
}

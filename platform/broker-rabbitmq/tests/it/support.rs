//! Test topologies on a real server, and a plain AMQP client that bypasses the bus.

use bytes::Bytes;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use onceward_broker::{
    Address, Arrival, Broker, BrokerConfig, BrokerError, Parcel, PublishOutcome, ReceiveOptions, Receiver, wire,
};
use onceward_broker_rabbitmq::RabbitMqBroker;
use onceward_testkit::{PATIENCE, eventually, rabbitmq_url};
use onceward_topology::{Exchange, Queue, Topic, Topology};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long one `receive` waits.
pub const POLL: Duration = Duration::from_secs(1);
pub const PREFETCH: usize = 200;

/// The shared server; starting it blocks.
pub async fn server_url() -> String {
    tokio::task::spawn_blocking(rabbitmq_url).await.expect("a server")
}

/// A unique name.
pub fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7().simple())
}

/// An exchange `<name>.events` with one queue `<name>` that receives every message.
pub fn one_queue(name: &str) -> Topology {
    with_queue(Queue::work(name))
}

pub fn with_queue(queue: Queue) -> Topology {
    let (name, exchange) = (queue.name.clone(), format!("{}.events", queue.name));
    Topology::new().exchange(Exchange::topic(&exchange)).queue(queue).bind(&exchange, "#", name)
}

/// Settings that detect failures quickly.
pub fn short_timeouts(address: Address) -> BrokerConfig {
    BrokerConfig {
        connect_timeout: Duration::from_secs(2),
        heartbeat: Duration::from_secs(2),
        ..BrokerConfig::new(address)
    }
}

pub fn broker(url: &str, topology: &Topology) -> RabbitMqBroker {
    RabbitMqBroker::new(BrokerConfig::new(Address::Url(url.to_owned())), topology.clone())
}

/// Declares a topology on the shared server.
pub async fn declared(topology: &Topology) -> RabbitMqBroker {
    let broker = broker(&server_url().await, topology);
    // A server that many tests share may be too busy to answer in time.
    let mut created = broker.declare().await;
    for _ in 0..3 {
        match created {
            Err(BrokerError::Unavailable(_)) => created = broker.declare().await,
            _ => break,
        }
    }
    created.expect("the topology can be declared");
    broker
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

pub async fn send(broker: &RabbitMqBroker, parcels: Vec<Parcel>) {
    let count = parcels.len();
    assert_eq!(broker.publish(parcels).await.expect("the broker responds"), vec![PublishOutcome::Accepted; count]);
}

pub async fn try_open(broker: &RabbitMqBroker, queue: &str, exclusive: bool) -> Result<Box<dyn Receiver>, BrokerError> {
    broker.open(ReceiveOptions { queue: queue.to_owned(), exclusive, prefetch: PREFETCH }).await
}

/// Opens the queue exclusively, as soon as its previous reader is gone.
pub async fn open(broker: &RabbitMqBroker, queue: &str) -> Box<dyn Receiver> {
    eventually("the queue is free", || async {
        match try_open(broker, queue, true).await {
            Ok(receiver) => Some(receiver),
            Err(BrokerError::Taken(_)) => None,
            Err(error) => panic!("it cannot be opened: {error}"),
        }
    })
    .await
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

/// Removes repeated bodies, as the database does with messages that arrive twice.
pub fn without_repeats(bodies: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    bodies.iter().filter(|body| seen.insert(body.as_str())).cloned().collect()
}

/// A plain AMQP client.
pub struct AmqpClient(Connection);

impl AmqpClient {
    pub async fn connect(url: &str) -> Self {
        Self(Connection::connect(url, ConnectionProperties::default()).await.expect("the server can be reached"))
    }

    pub async fn channel(&self) -> Channel {
        self.0.create_channel().await.expect("a channel")
    }

    /// Declares a queue; returns the broker's error text if that fails.
    pub async fn declare(&self, queue: &str, arguments: &[(&str, AMQPValue)]) -> Result<(), String> {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declared = self.channel().await.queue_declare(queue.into(), options, table).await;
        declared.map(drop).map_err(|error| error.to_string())
    }

    pub async fn delete(&self, queue: &str) {
        let deleted = self.channel().await.queue_delete(queue.into(), QueueDeleteOptions::default()).await;
        deleted.expect("the entity can be deleted");
    }

    pub async fn publish(&self, exchange: &str, key: &str, body: &[u8], properties: BasicProperties) {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(exchange.into(), key.into(), options, body, properties).await;
        assert!(sent.expect("the message is sent").await.expect("the broker confirms").is_ack());
    }
}

pub fn longstr(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

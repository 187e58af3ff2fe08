//! Connects to the broker that the settings name; the only place that knows all brokers. Each broker is a Cargo feature.

use crate::Config;
use onceward_broker::{Broker, BrokerConfig, BusKind, NamespacedBroker, prefixed};
use onceward_db::Db;
use onceward_topology::Topology;
use std::sync::Arc;

/// Returns the broker that the settings name, or `None` if PostgreSQL is the bus. It connects at first use. Fails if the
/// address is not usable, or if this program was built without the broker.
pub fn connect(config: &Config, topology: &Topology) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    connect_with(config, topology, None)
}

/// Like [`connect`], but readers of Kafka keep their positions in the database. Everything that reads queues, or counts the
/// messages that wait in them, must use it.
pub fn connect_with_positions(
    config: &Config,
    topology: &Topology,
    db: &Db,
) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    connect_with(config, topology, Some(db))
}

fn connect_with(config: &Config, topology: &Topology, db: Option<&Db>) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    let (settings, prefix) = (config.broker(), config.bus.namespace.clone());
    let topology = prefixed(topology, &prefix);
    let broker = match config.bus_kind().map_err(anyhow::Error::msg)? {
        BusKind::Postgres => return Ok(None),
        BusKind::RabbitMq => rabbitmq(settings, topology)?,
        BusKind::Kafka => kafka(settings, topology, db)?,
        BusKind::Redis => redis(settings, topology)?,
    };
    Ok(Some(if prefix.is_empty() { broker } else { Arc::new(NamespacedBroker::new(broker, prefix)) }))
}

#[cfg(feature = "rabbitmq")]
fn rabbitmq(settings: BrokerConfig, topology: Topology) -> anyhow::Result<Arc<dyn Broker>> {
    Ok(Arc::new(onceward_broker_rabbitmq::RabbitMqBroker::new(settings, topology)))
}

#[cfg(not(feature = "rabbitmq"))]
fn rabbitmq(_: BrokerConfig, _: Topology) -> anyhow::Result<Arc<dyn Broker>> {
    Err(not_built("RabbitMQ", "rabbitmq"))
}

#[cfg(feature = "kafka")]
fn kafka(settings: BrokerConfig, topology: Topology, db: Option<&Db>) -> anyhow::Result<Arc<dyn Broker>> {
    let kafka = onceward_broker_kafka::KafkaBroker::new(settings, topology);
    Ok(Arc::new(match db {
        Some(db) => {
            kafka.with_positions(Arc::new(onceward_message_log::positions::PostgresPositionStore::new(db.clone())))
        }
        None => kafka,
    }))
}

#[cfg(not(feature = "kafka"))]
fn kafka(_: BrokerConfig, _: Topology, _: Option<&Db>) -> anyhow::Result<Arc<dyn Broker>> {
    Err(not_built("Kafka", "kafka"))
}

#[cfg(feature = "redis")]
fn redis(settings: BrokerConfig, topology: Topology) -> anyhow::Result<Arc<dyn Broker>> {
    Ok(Arc::new(onceward_broker_redis::RedisBroker::new(settings, topology)))
}

#[cfg(not(feature = "redis"))]
fn redis(_: BrokerConfig, _: Topology) -> anyhow::Result<Arc<dyn Broker>> {
    Err(not_built("Redis", "redis"))
}

#[cfg(not(all(feature = "rabbitmq", feature = "kafka", feature = "redis")))]
fn not_built(broker: &str, feature: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "BROKER_URL names {broker}, but this program was built without it; build it with the Cargo feature `{feature}` of \
         `onceward` or `onceward-cli`, or unset BROKER_URL to use PostgreSQL as the bus"
    )
}

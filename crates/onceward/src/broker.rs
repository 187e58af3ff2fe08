//! From the setting to the broker: the one place that names them all.

use crate::Config;
use onceward_topology::Topology;
use onceward_transport::{Broker, BusKind, Namespaced, prefixed};
use onceward_transport_kafka::KafkaBroker;
use onceward_transport_rabbitmq::RabbitMqBroker;
use onceward_transport_redis::RedisBroker;
use std::sync::Arc;

/// The external bus of the settings; none when PostgreSQL is the bus. Connects at first use.
pub fn connect(config: &Config, topology: &Topology) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    let (settings, prefix) = (config.broker(), config.bus.namespace.clone());
    let topology = prefixed(topology, &prefix);
    let broker: Arc<dyn Broker> = match config.bus_kind().map_err(anyhow::Error::msg)? {
        BusKind::Postgres => return Ok(None),
        BusKind::RabbitMq => Arc::new(RabbitMqBroker::new(settings, topology)),
        BusKind::Kafka => Arc::new(KafkaBroker::new(settings, topology)),
        BusKind::Redis => Arc::new(RedisBroker::new(settings, topology)),
    };
    Ok(Some(if prefix.is_empty() { broker } else { Arc::new(Namespaced::new(broker, prefix)) }))
}

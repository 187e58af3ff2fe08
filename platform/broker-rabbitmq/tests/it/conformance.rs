//! The conformance suite of all brokers.

use onceward_broker::{Broker, BrokerConfig};
use onceward_broker_rabbitmq::RabbitMqBroker;
use onceward_conformance::broker::BrokerHarness;
use onceward_testkit::{left_out, rabbitmq_url};
use onceward_topology::Topology;
use std::sync::Arc;

struct RabbitMqHarness;

impl BrokerHarness for RabbitMqHarness {
    fn url(&self) -> String {
        rabbitmq_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(RabbitMqBroker::new(config, topology))
    }

    fn is_left_out(&self) -> bool {
        left_out("rabbitmq")
    }
}

onceward_conformance::broker_suite!(RabbitMqHarness);

//! What every bus passes.

use onceward_testkit::{left_out, rabbitmq_url};
use onceward_topology::Topology;
use onceward_transport::{Broker, BrokerConfig};
use onceward_transport_conformance::wire::Lab;
use onceward_transport_rabbitmq::RabbitMqBroker;
use std::sync::Arc;

struct RabbitMqLab;

impl Lab for RabbitMqLab {
    fn url(&self) -> String {
        rabbitmq_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(RabbitMqBroker::new(config, topology))
    }

    fn left_out(&self) -> bool {
        left_out("rabbitmq")
    }
}

onceward_transport_conformance::wire_suite!(RabbitMqLab);

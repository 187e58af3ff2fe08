//! What every bus passes.

use onceward_testkit::rabbitmq_url;
use onceward_topology::Topology;
use onceward_transport::{Broker, BrokerConfig};
use onceward_transport_conformance::wire::Lab;
use onceward_transport_rabbitmq::RabbitMqBroker;
use std::sync::Arc;

struct RabbitMqLab(String);

impl Lab for RabbitMqLab {
    fn url(&self) -> String {
        self.0.clone()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(RabbitMqBroker::new(config, topology))
    }
}

async fn lab() -> RabbitMqLab {
    RabbitMqLab(tokio::task::spawn_blocking(rabbitmq_url).await.expect("a server"))
}

onceward_transport_conformance::wire_suite!(lab().await);

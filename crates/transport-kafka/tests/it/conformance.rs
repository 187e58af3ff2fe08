//! What every bus passes.

use crate::mock;
use onceward_testkit::kafka_url;
use onceward_topology::Topology;
use onceward_transport::{Broker, BrokerConfig};
use onceward_transport_conformance::wire::Lab;
use onceward_transport_kafka::KafkaBroker;
use std::sync::Arc;

struct KafkaLab;

impl Lab for KafkaLab {
    fn url(&self) -> String {
        kafka_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(KafkaBroker::new(config, topology))
    }
}

onceward_transport_conformance::wire_suite!({
    if mock::leaves_out("it makes no topics and tells no settings") {
        return;
    }
    KafkaLab
});

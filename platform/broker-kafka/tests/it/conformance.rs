//! The conformance suite of all brokers.

use crate::mock;
use onceward_broker::{Broker, BrokerConfig};
use onceward_broker_kafka::KafkaBroker;
use onceward_conformance::broker::BrokerHarness;
use onceward_testkit::kafka_url;
use onceward_topology::Topology;
use std::sync::Arc;

struct KafkaHarness;

impl BrokerHarness for KafkaHarness {
    fn url(&self) -> String {
        kafka_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(KafkaBroker::new(config, topology))
    }
}

onceward_conformance::broker_suite!({
    if mock::must_skip("the mock creates no topics and returns no settings") {
        return;
    }
    KafkaHarness
});

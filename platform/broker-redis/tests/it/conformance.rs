//! The conformance suite of all brokers.

use onceward_broker::{Broker, BrokerConfig};
use onceward_broker_redis::RedisBroker;
use onceward_conformance::broker::BrokerHarness;
use onceward_testkit::{left_out, redis_url};
use onceward_topology::Topology;
use std::sync::Arc;

struct RedisHarness;

impl BrokerHarness for RedisHarness {
    fn url(&self) -> String {
        redis_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(RedisBroker::new(config, topology))
    }

    fn is_left_out(&self) -> bool {
        left_out("redis")
    }
}

onceward_conformance::broker_suite!(RedisHarness);

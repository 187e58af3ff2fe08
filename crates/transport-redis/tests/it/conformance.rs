//! What every bus passes.

use onceward_testkit::{left_out, redis_url};
use onceward_topology::Topology;
use onceward_transport::{Broker, BrokerConfig};
use onceward_transport_conformance::wire::Lab;
use onceward_transport_redis::RedisBroker;
use std::sync::Arc;

struct RedisLab;

impl Lab for RedisLab {
    fn url(&self) -> String {
        redis_url()
    }

    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(RedisBroker::new(config, topology))
    }

    fn left_out(&self) -> bool {
        left_out("redis")
    }
}

onceward_transport_conformance::wire_suite!(RedisLab);

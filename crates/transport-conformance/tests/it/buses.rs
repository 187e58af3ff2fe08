//! The whole platform on each bus there is.

use onceward_testkit::{kafka_url, left_out, rabbitmq_url, redis_url};
use onceward_transport_conformance::{platform::PlatformLab, platform_suite};

/// PostgreSQL itself.
struct NoBroker;

impl PlatformLab for NoBroker {
    fn bus_url(&self) -> Option<String> {
        None
    }
}

/// A broker's name, and where it is.
struct Broker(&'static str, fn() -> String);

impl PlatformLab for Broker {
    fn bus_url(&self) -> Option<String> {
        Some((self.1)())
    }

    fn left_out(&self) -> bool {
        left_out(self.0)
    }
}

mod postgres {
    super::platform_suite!(super::NoBroker);
}

mod rabbitmq {
    super::platform_suite!(super::Broker("rabbitmq", super::rabbitmq_url));
}

mod redis {
    super::platform_suite!(super::Broker("redis", super::redis_url));
}

mod kafka {
    super::platform_suite!(super::Broker("kafka", super::kafka_url));
}

//! The whole platform on each bus.

use onceward_conformance::{platform::PlatformHarness, platform_suite};
use onceward_testkit::{kafka_url, left_out, rabbitmq_url, redis_url};

/// PostgreSQL itself.
struct NoBroker;

impl PlatformHarness for NoBroker {
    fn bus_url(&self) -> Option<String> {
        None
    }
}

/// A broker's name, and the function that returns its URL.
struct Broker(&'static str, fn() -> String);

impl PlatformHarness for Broker {
    fn bus_url(&self) -> Option<String> {
        Some((self.1)())
    }

    fn is_left_out(&self) -> bool {
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

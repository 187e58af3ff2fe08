//! PostgreSQL as the bus.

use onceward_transport_conformance::{platform::PlatformLab, platform_suite};

struct Postgres;

impl PlatformLab for Postgres {
    fn bus_url(&self) -> Option<String> {
        None
    }
}

platform_suite!(Postgres);

//! The buses that the tests run on.

use onceward::{Platform, broker::Broker};
use onceward_example_orders::service;
pub use onceward_testkit::Bus;
use std::sync::Arc;

/// Connects to the bus as a program outside the service would.
pub fn broker(bus: &Bus) -> Arc<dyn Broker> {
    let platform = Platform::assemble(vec![service()]).expect("the service is valid");
    bus.broker(platform.topology())
}

/// Creates a test of an `async fn name(bus: Bus)` for each named bus; without names, for all four.
macro_rules! on_buses {
    ($name:ident) => {
        on_buses!($name: on_postgres Postgres, on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
    };
    ($name:ident: $($test:ident $kind:ident),+) => {
        mod $name {
            use onceward::broker::BusKind;
            use onceward_testkit::Bus;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if !onceward_testkit::left_out(BusKind::$kind.name()) {
                    super::$name(Bus::shared(BusKind::$kind)).await;
                }
            })+
        }
    };
}

/// Creates three tests of an `async fn name(kind: BusKind)`: one for each broker.
macro_rules! on_brokers {
    ($name:ident) => {
        on_brokers!($name: on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
    };
    ($name:ident: $($test:ident $kind:ident),+) => {
        mod $name {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                use onceward::broker::BusKind;
                if !onceward_testkit::left_out(BusKind::$kind.name()) {
                    super::$name(BusKind::$kind).await;
                }
            })+
        }
    };
}

pub(crate) use {on_brokers, on_buses};

//! The buses that every test runs on.

use onceward::{
    Config, Platform, broker,
    transport::{Broker, BusKind},
};
use onceward_example_orders::service;
use onceward_testkit::{kafka_url, rabbitmq_url, redis_url};
use std::sync::Arc;
use uuid::Uuid;

/// A bus, and the names that one test has on it.
#[derive(Clone, Debug)]
pub struct Bus {
    pub kind: BusKind,
    /// `None`: PostgreSQL.
    pub url: Option<String>,
    pub namespace: String,
}

impl Bus {
    /// The shared server of this kind.
    pub fn shared(kind: BusKind) -> Self {
        let url = match kind {
            BusKind::Postgres => None,
            BusKind::RabbitMq => Some(rabbitmq_url()),
            BusKind::Kafka => Some(kafka_url()),
            BusKind::Redis => Some(redis_url()),
        };
        Self::at(kind, url)
    }

    /// The server at `url`.
    pub fn at(kind: BusKind, url: Option<String>) -> Self {
        Self { kind, url, namespace: format!("t{}.", Uuid::now_v7().simple()) }
    }

    /// The bus as a program outside the service would use it.
    pub fn broker(&self) -> Arc<dyn Broker> {
        let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
        config.bus.url = self.url.clone().unwrap_or_default();
        config.bus.namespace = self.namespace.clone();
        let platform = Platform::assemble(vec![service()]).expect("the service fits");
        let broker = broker::connect(&config, platform.topology()).expect("the settings are valid");
        broker.expect("an external bus")
    }

    pub fn is_external(&self) -> bool {
        self.kind != BusKind::Postgres
    }
}

/// Makes a test for each named bus of an `async fn name(bus: Bus)`; without names, for all four.
macro_rules! on_buses {
    ($name:ident) => {
        on_buses!($name: on_postgres Postgres, on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
    };
    ($name:ident: $($test:ident $kind:ident),+) => {
        mod $name {
            use crate::support::bus::Bus;
            use onceward::transport::BusKind;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if !onceward_testkit::left_out(BusKind::$kind.name()) {
                    super::$name(Bus::shared(BusKind::$kind)).await;
                }
            })+
        }
    };
}

/// Makes three tests of an `async fn name(kind: BusKind)`: one for each broker.
macro_rules! on_brokers {
    ($name:ident) => {
        on_brokers!($name: on_rabbitmq RabbitMq, on_kafka Kafka, on_redis Redis);
    };
    ($name:ident: $($test:ident $kind:ident),+) => {
        mod $name {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                use onceward::transport::BusKind;
                if !onceward_testkit::left_out(BusKind::$kind.name()) {
                    super::$name(BusKind::$kind).await;
                }
            })+
        }
    };
}

pub(crate) use {on_brokers, on_buses};

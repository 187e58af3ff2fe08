//! The bus that a test's messages go over.

use crate::{kafka_url, rabbitmq_url, redis_url};
use onceward::{
    Config, Topology,
    broker::{Broker, BusKind},
    connect::connect,
};
use std::sync::Arc;
use uuid::Uuid;

/// A bus, and the namespace of one test on it.
#[derive(Clone, Debug)]
pub struct Bus {
    /// The kind of bus.
    pub kind: BusKind,
    /// The URL; `None` for PostgreSQL.
    pub url: Option<String>,
    /// The prefix of every name.
    pub namespace: String,
}

impl Bus {
    /// Returns the shared server of this kind.
    pub fn shared(kind: BusKind) -> Self {
        let url = match kind {
            BusKind::Postgres => None,
            BusKind::RabbitMq => Some(rabbitmq_url()),
            BusKind::Kafka => Some(kafka_url()),
            BusKind::Redis => Some(redis_url()),
        };
        Self::at(kind, url)
    }

    /// Returns the server at `url`.
    pub fn at(kind: BusKind, url: Option<String>) -> Self {
        Self { kind, url, namespace: format!("t{}.", Uuid::now_v7().simple()) }
    }

    /// Returns the external bus as a program outside the platform would use it.
    pub fn broker(&self, topology: &Topology) -> Arc<dyn Broker> {
        let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
        config.bus.url = self.url.clone().unwrap_or_default();
        config.bus.namespace = self.namespace.clone();
        connect(&config, topology).expect("the settings are valid").expect("an external bus")
    }

    /// Returns whether the bus is a server other than the database.
    pub fn is_external(&self) -> bool {
        self.kind != BusKind::Postgres
    }

    /// Returns the environment variables by which a process uses it.
    pub(crate) fn variables(&self) -> [(&str, &str); 3] {
        [
            ("BROKER_URL", self.url.as_deref().unwrap_or_default()),
            ("ONCEWARD_BUS_NAMESPACE", &self.namespace),
            ("ONCEWARD_BUS_HEARTBEAT_MS", "3000"),
        ]
    }
}

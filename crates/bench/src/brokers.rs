//! The broker that a bench needs: its own, unless one is given.

use crate::Settings;
use onceward::transport::BusKind;
use onceward_local_brokers::{Broker, Kafka, KafkaPrograms, RabbitMq, RabbitMqPrograms, Redis, RedisPrograms};

/// A broker for one run.
pub(crate) enum PrivateBroker {
    None,
    Given(String),
    RabbitMq(Box<RabbitMq>),
    Kafka(Box<Kafka>),
    Redis(Box<Redis>),
}

impl PrivateBroker {
    pub(crate) async fn start(settings: &Settings, bus: BusKind) -> anyhow::Result<Self> {
        if let Some(url) = settings.broker_url.clone().filter(|_| bus != BusKind::Postgres) {
            return Ok(Self::Given(url));
        }
        tokio::task::spawn_blocking(move || {
            Ok(match bus {
                BusKind::Postgres => Self::None,
                BusKind::RabbitMq => Self::RabbitMq(Box::new(RabbitMq::temporary(&RabbitMqPrograms::find()?)?)),
                BusKind::Kafka => Self::Kafka(Box::new(Kafka::temporary(&KafkaPrograms::find()?)?)),
                BusKind::Redis => Self::Redis(Box::new(Redis::temporary(&RedisPrograms::find()?)?)),
            })
        })
        .await?
    }

    /// Empty where PostgreSQL is the bus.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Given(url) => url.clone(),
            Self::RabbitMq(server) => server.url(),
            Self::Kafka(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }

    pub(crate) async fn end(self) -> anyhow::Result<()> {
        Ok(tokio::task::spawn_blocking(move || drop(self)).await?)
    }
}

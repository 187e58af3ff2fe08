//! Starts the broker that a bench needs, unless a URL is given.

use crate::BenchSettings;
use onceward::broker::BusKind;
use onceward_local_brokers::{Kafka, KafkaPrograms, LocalBroker, RabbitMq, RabbitMqPrograms, Redis, RedisPrograms};

/// The broker of one run.
pub(crate) enum BenchBroker {
    None,
    Given(String),
    RabbitMq(Box<RabbitMq>),
    Kafka(Box<Kafka>),
    Redis(Box<Redis>),
}

impl BenchBroker {
    pub(crate) async fn start(settings: &BenchSettings, bus: BusKind) -> anyhow::Result<Self> {
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

    /// Returns the broker's URL, or an empty string if PostgreSQL is the bus.
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

//! Declaring the topology where messages go through, and telling where it differs: in PostgreSQL and on the external bus.

use crate::{Config, Platform, broker};
use onceward_db::Db;
use onceward_transport::{Broker, BrokerError, BusKind, Difference, TransportError};
use onceward_transport_postgres::{
    compare::{Remedy, compare},
    declare,
};
use serde::Serialize;
use std::{future::Future, time::Duration};

/// The name of the side that is always there.
const POSTGRES: &str = "postgres";

/// Something that is not as the topology says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Differs {
    /// `postgres`, or the external bus.
    pub on: &'static str,
    /// `queue orders.reserve.v1`.
    pub what: String,
    /// What the topology says.
    pub declared: String,
    /// What is there.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

impl Differs {
    fn new(on: &'static str, difference: Difference) -> Self {
        let Difference { what, declared, found, advice } = difference;
        Self { on, what, declared, found, advice }
    }
}

/// Something that was made or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    /// `postgres`, or the external bus.
    pub on: &'static str,
    /// `queue orders.reserve.v1`.
    pub what: String,
}

/// How things stand.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyState {
    /// What was made.
    pub made: Vec<Made>,
    /// What differs.
    pub differences: Vec<Differs>,
    /// Who did not answer, and how.
    pub unreachable: Option<String>,
}

/// Compares both sides with the topology. Changes nothing, and waits for each side `most` long.
pub async fn check(platform: &Platform, config: &Config, most: Duration) -> anyhow::Result<TopologyState> {
    let mut state = TopologyState::default();
    let differences = routes(platform, config, most).await?;
    match differences {
        Ok(differences) => state.add(POSTGRES, differences.into_iter().map(|(_, difference)| difference)),
        Err(unreachable) => state.unreachable = Some(unreachable),
    }
    if let Some(broker) = broker::connect(config, platform.topology())? {
        check_bus(&*broker, most, &mut state).await?;
        broker.close().await;
    }
    Ok(state)
}

/// Makes what is missing on both sides; the bus comes first, so that no message is sent where nothing is. If anything is
/// there that differs and cannot be changed, it is named and nothing is touched in PostgreSQL. Nothing is deleted on the bus.
pub async fn declare(platform: &Platform, config: &Config, most: Duration) -> anyhow::Result<TopologyState> {
    let mut state = TopologyState::default();
    let differences = match routes(platform, config, most).await? {
        Ok(differences) => differences,
        Err(unreachable) => {
            state.unreachable = Some(unreachable);
            return Ok(state);
        }
    };
    let for_people = differences.into_iter().filter(|(remedy, _)| *remedy == Remedy::People);
    state.add(POSTGRES, for_people.map(|(_, difference)| difference));
    if !state.differences.is_empty() {
        return Ok(state);
    }
    if let Some(broker) = broker::connect(config, platform.topology())? {
        declare_on_bus(&*broker, most, &mut state).await?;
        broker.close().await;
        if state.unreachable.is_some() || !state.differences.is_empty() {
            return Ok(state);
        }
    }
    let database = config.db();
    let made = declare::declare_and_tell(&database, platform.topology(), bus_kind(config)?);
    let made = tokio::time::timeout(most, made).await.map_err(|_| late(POSTGRES, most))??;
    state.made.extend(made.into_iter().map(|what| Made { on: POSTGRES, what }));
    Ok(state)
}

impl TopologyState {
    /// Everything is as the topology says.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty() && self.unreachable.is_none()
    }

    fn add(&mut self, on: &'static str, differences: impl IntoIterator<Item = Difference>) {
        self.differences.extend(differences.into_iter().map(|difference| Differs::new(on, difference)));
    }
}

fn bus_kind(config: &Config) -> anyhow::Result<BusKind> {
    config.bus_kind().map_err(anyhow::Error::msg)
}

fn late(who: &str, most: Duration) -> anyhow::Error {
    anyhow::anyhow!("{who} did not answer within {} s", most.as_secs())
}

/// The differences in PostgreSQL; the inner error is that it is not there.
async fn routes(
    platform: &Platform,
    config: &Config,
    most: Duration,
) -> anyhow::Result<Result<Vec<(Remedy, Difference)>, String>> {
    let db = Db::connect(config.db())?;
    let kind = bus_kind(config)?;
    match tokio::time::timeout(most, compare(&db, platform.topology(), kind)).await {
        Err(_) => Ok(Err(late(POSTGRES, most).to_string())),
        Ok(Err(TransportError::Db(error))) if error.is_unavailable() => Ok(Err(error.to_string())),
        Ok(Err(error)) => anyhow::bail!("the routes cannot be read: {error}; has `onceward migrate` been run?"),
        Ok(Ok(differences)) => Ok(Ok(differences)),
    }
}

async fn declare_on_bus(broker: &dyn Broker, most: Duration, state: &mut TopologyState) -> anyhow::Result<()> {
    match bounded(broker, most, broker.declare()).await {
        Ok(made) => state.made.extend(made.into_iter().map(|what| Made { on: broker.name(), what })),
        Err(error @ (BrokerError::Misconfigured(_) | BrokerError::Missing(_))) => {
            // What differs says more than the first refusal, unless the refusal is about something else.
            check_bus(broker, most, state).await?;
            if state.is_equal() {
                return Err(error.into());
            }
            return Ok(());
        }
        Err(error) => {
            state.unreachable = Some(format!("{}: {error}", broker.name()));
            return Ok(());
        }
    }
    check_bus(broker, most, state).await
}

async fn check_bus(broker: &dyn Broker, most: Duration, state: &mut TopologyState) -> anyhow::Result<()> {
    match bounded(broker, most, broker.check()).await {
        Ok(differences) => state.add(broker.name(), differences),
        Err(error @ BrokerError::Misconfigured(_)) => return Err(error.into()),
        Err(error) => {
            let unreachable = format!("{}: {error}", broker.name());
            state.unreachable.get_or_insert(unreachable);
        }
    }
    Ok(())
}

async fn bounded<T>(
    broker: &dyn Broker,
    most: Duration,
    asked: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    let late = || Err(BrokerError::Unavailable(late(broker.name(), most).to_string()));
    tokio::time::timeout(most, asked).await.unwrap_or_else(|_| late())
}

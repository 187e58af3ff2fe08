//! Declares the topology, and reports where PostgreSQL and the external bus differ from it.

use onceward::{Config, Platform, connect};
use onceward_broker::{Broker, BrokerError, BusKind, TopologyDifference};
use onceward_db::Db;
use onceward_message_log::{
    BusError,
    compare::{Remedy, compare},
    declare,
    triage::Operator,
};
use serde::Serialize;
use std::{future::Future, time::Duration};

/// The name of the side that always exists.
const POSTGRES: &str = "postgres";

/// A difference from the declared topology, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocatedDifference {
    /// `postgres`, or the external bus.
    pub on: &'static str,
    /// `queue orders.reserve.v1`.
    pub what: String,
    /// The declared value.
    pub declared: String,
    /// The actual value.
    pub found: String,
    /// What to do about it.
    pub advice: String,
}

impl LocatedDifference {
    fn new(on: &'static str, difference: TopologyDifference) -> Self {
        let TopologyDifference { what, declared, found, advice } = difference;
        Self { on, what, declared, found, advice }
    }
}

/// Something that was created or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyChange {
    /// `postgres`, or the external bus.
    pub on: &'static str,
    /// `queue orders.reserve.v1`.
    pub what: String,
}

/// The result of a comparison or declaration.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyReport {
    /// The created and changed objects.
    #[serde(rename = "made")]
    pub changes: Vec<TopologyChange>,
    /// The differences from the topology.
    pub differences: Vec<LocatedDifference>,
    /// Comparisons that were not possible, each with what to do about it.
    pub unchecked: Vec<String>,
    /// The side that did not respond, and its error.
    pub unreachable: Option<String>,
}

/// Compares both sides with the topology. Changes nothing, and waits at most `timeout` for each side.
pub async fn check(platform: &Platform, config: &Config, timeout: Duration) -> anyhow::Result<TopologyReport> {
    let mut report = TopologyReport::default();
    let differences = compare_routes(platform, config, timeout).await?;
    match differences {
        Ok(differences) => report.add(POSTGRES, differences.into_iter().map(|(_, difference)| difference)),
        Err(unreachable) => report.unreachable = Some(unreachable),
    }
    if let Some(broker) = connect::connect(config, platform.topology())? {
        check_bus(&*broker, timeout, &mut report).await?;
        broker.close().await;
    }
    Ok(report)
}

/// Creates what is missing on both sides; the bus comes first, so that no message is published to a missing exchange or
/// queue. If anything differs that cannot be changed, it is reported and PostgreSQL is not changed. Nothing is deleted
/// on the bus. What `operator` changes on either side is recorded in the platform's audit chain.
pub async fn declare(
    platform: &Platform,
    config: &Config,
    timeout: Duration,
    operator: &Operator,
) -> anyhow::Result<TopologyReport> {
    let mut report = TopologyReport::default();
    let differences = match compare_routes(platform, config, timeout).await? {
        Ok(differences) => differences,
        Err(unreachable) => {
            report.unreachable = Some(unreachable);
            return Ok(report);
        }
    };
    let manual = differences.into_iter().filter(|(remedy, _)| *remedy == Remedy::Manual);
    report.add(POSTGRES, manual.map(|(_, difference)| difference));
    if !report.differences.is_empty() {
        return Ok(report);
    }
    let database = config.db();
    let mut on_broker = Vec::new();
    if let Some(broker) = connect::connect(config, platform.topology())? {
        let declared = declare_on_bus(&*broker, timeout, &mut report).await;
        broker.close().await;
        on_broker.extend(report.changes.iter().map(|change| change.what.clone()));
        if declared.is_err() || report.unreachable.is_some() || !report.differences.is_empty() {
            let recorded = declare::record_on_broker(&database, operator, &on_broker);
            tokio::time::timeout(timeout, recorded).await.map_err(|_| timed_out(POSTGRES, timeout))??;
            return declared.map(|()| report);
        }
    }
    let kind = bus_kind(config)?;
    let declared = declare::declare_and_report(&database, platform.topology(), kind, Some(operator), &on_broker);
    let changes = tokio::time::timeout(timeout, declared).await.map_err(|_| timed_out(POSTGRES, timeout))??;
    report.changes.extend(changes.into_iter().map(|what| TopologyChange { on: POSTGRES, what }));
    Ok(report)
}

impl TopologyReport {
    /// Whether everything that could be compared matches the topology.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty() && self.unreachable.is_none()
    }

    /// Whether everything matches the topology; `None` where nothing differs but not everything could be compared.
    pub fn equal(&self) -> Option<bool> {
        (!self.is_equal() || self.unchecked.is_empty()).then(|| self.is_equal())
    }

    fn add(&mut self, on: &'static str, differences: impl IntoIterator<Item = TopologyDifference>) {
        self.differences.extend(differences.into_iter().map(|difference| LocatedDifference::new(on, difference)));
    }
}

fn bus_kind(config: &Config) -> anyhow::Result<BusKind> {
    config.bus_kind().map_err(anyhow::Error::msg)
}

fn timed_out(side: &str, timeout: Duration) -> anyhow::Error {
    anyhow::anyhow!("{side} did not respond within {} s", timeout.as_secs())
}

/// Returns the differences in PostgreSQL; the inner error means that it cannot be reached.
async fn compare_routes(
    platform: &Platform,
    config: &Config,
    timeout: Duration,
) -> anyhow::Result<Result<Vec<(Remedy, TopologyDifference)>, String>> {
    let db = Db::connect(config.db())?;
    let kind = bus_kind(config)?;
    match tokio::time::timeout(timeout, compare(&db, platform.topology(), kind)).await {
        Err(_) => Ok(Err(timed_out(POSTGRES, timeout).to_string())),
        Ok(Err(BusError::Db(error))) if error.is_unavailable() => Ok(Err(error.to_string())),
        Ok(Err(error)) => anyhow::bail!("the routes cannot be read: {error}; run `onceward migrate` first"),
        Ok(Ok(differences)) => Ok(Ok(differences)),
    }
}

async fn declare_on_bus(broker: &dyn Broker, timeout: Duration, report: &mut TopologyReport) -> anyhow::Result<()> {
    match bounded(broker, timeout, broker.declare()).await {
        Ok(changes) => {
            report.changes.extend(changes.into_iter().map(|what| TopologyChange { on: broker.name(), what }))
        }
        Err(error @ (BrokerError::Misconfigured(_) | BrokerError::Missing(_))) => {
            // The differences are more useful than the first refusal, unless the refusal is about something else.
            check_bus(broker, timeout, report).await?;
            if report.is_equal() {
                return Err(error.into());
            }
            return Ok(());
        }
        Err(error) => {
            report.unreachable = Some(format!("{}: {error}", broker.name()));
            return Ok(());
        }
    }
    check_bus(broker, timeout, report).await
}

async fn check_bus(broker: &dyn Broker, timeout: Duration, report: &mut TopologyReport) -> anyhow::Result<()> {
    match bounded(broker, timeout, broker.check()).await {
        Ok(differences) => {
            report.add(broker.name(), differences);
            let unchecked = bounded(broker, timeout, broker.unchecked()).await.unwrap_or_default();
            report.unchecked.extend(unchecked.into_iter().map(|what| format!("{}: {what}", broker.name())));
        }
        Err(error @ BrokerError::Misconfigured(_)) => return Err(error.into()),
        Err(error) => {
            let unreachable = format!("{}: {error}", broker.name());
            report.unreachable.get_or_insert(unreachable);
        }
    }
    Ok(())
}

async fn bounded<T>(
    broker: &dyn Broker,
    timeout: Duration,
    response: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    let timed_out = || Err(BrokerError::Unavailable(timed_out(broker.name(), timeout).to_string()));
    tokio::time::timeout(timeout, response).await.unwrap_or_else(|_| timed_out())
}

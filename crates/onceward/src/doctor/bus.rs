//! The way over the bus: the same one for everybody, relays that run, and a broker as the topology has it.

use super::{Finding, Patient};
use crate::{Config, Platform, broker, outbox_status};
use jiff::Timestamp;
use onceward_transport::{Broker, BrokerError, BusKind};
use onceward_transport_postgres::{routes::OUTBOX, stats};
use std::{future::Future, time::Duration};

pub(super) async fn same_bus(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let theirs = outbox_status::bus(&patient.db).await?;
    let ours = patient.config.bus_kind().map_err(anyhow::Error::msg)?.name();
    if theirs == ours {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::critical(
        format!("the database is set up for {theirs}, and the settings name {ours}"),
        "set BROKER_URL to the bus of the database, or run `onceward migrate` to switch the database",
    )])
}

pub(super) async fn relays(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let bus = outbox_status::bus(&patient.db).await?;
    if bus == BusKind::Postgres.name() {
        return Ok(Vec::new());
    }
    let now = Timestamp::now();
    let mut relays = outbox_status::relays(&patient.db).await?;
    relays.retain(|relay| relay.is_alive(now));
    if relays.is_empty() {
        let what = "no relay runs, so that messages wait in the outbox";
        return Ok(vec![Finding::critical(what, "run `onceward serve --role relay`")]);
    }
    let mut findings = Vec::new();
    for relay in relays {
        let name = &relay.relay;
        if relay.bus != bus {
            let what = format!("relay {name} carries to {}, and the database is set up for {bus}", relay.bus);
            findings.push(Finding::critical(what, "restart it with the settings of the others"));
        } else if !relay.up {
            let error = relay.last_error.as_deref().unwrap_or("no reason given");
            let what = format!("relay {name} does not reach {bus} since {}: {error}", relay.since);
            findings.push(Finding::critical(what, "see to the broker and to the way there; messages wait meanwhile"));
        }
    }
    Ok(findings)
}

/// What waits for a bus that nobody carries to any more.
pub(super) async fn leftovers(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    if outbox_status::bus(&patient.db).await? != BusKind::Postgres.name() {
        return Ok(Vec::new());
    }
    let stats = stats::queue_stats(&patient.db).await?;
    let left: i64 = stats.iter().filter(|stats| stats.queue == OUTBOX).map(|stats| stats.depth + stats.deferred).sum();
    if left == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::critical(
        format!("{left} messages wait for an external bus, and the bus is PostgreSQL now"),
        "run `onceward serve --role relay --role worker` with the former BROKER_URL until they are gone",
    )])
}

/// Asks the broker of the settings, whatever the database says.
pub(super) async fn broker(platform: &Platform, config: &Config, most: Duration) -> anyhow::Result<Vec<Finding>> {
    let Some(broker) = broker::connect(config, platform.topology())? else { return Ok(Vec::new()) };
    let findings = ask(&*broker, most).await;
    broker.close().await;
    Ok(findings)
}

async fn ask(broker: &dyn Broker, most: Duration) -> Vec<Finding> {
    let name = broker.name();
    // Less than the whole time of a check, so that a broker that is silent is named.
    let each = most / 4;
    if let Err(error) = bounded(each, broker.ping()).await {
        let advice = "see to the broker and to the way there, or correct BROKER_URL";
        return vec![Finding::critical(format!("{name} does not answer: {error}"), advice)];
    }
    let mut findings = Vec::new();
    match bounded(each, broker.check()).await {
        Ok(differences) => findings.extend(differences.into_iter().map(|difference| {
            let what = format!(
                "{} differs on {name}: declared {}, found {}",
                difference.what, difference.declared, difference.found
            );
            Finding::warning(what, difference.advice)
        })),
        Err(error) => findings.push(unknown(name, "differs from the topology", &error)),
    }
    match bounded(each, broker.advise()).await {
        // A broker's advice is one sentence: what it is, a colon, and what to do.
        Ok(advice) => findings.extend(advice.iter().map(|advice| match advice.rsplit_once(": ") {
            Some((what, advice)) => Finding::warning(format!("{name}: {what}"), advice),
            None => Finding::warning(format!("{name}: {advice}"), "see the broker's own documentation"),
        })),
        Err(error) => findings.push(unknown(name, "is set up well", &error)),
    }
    findings
}

fn unknown(name: &str, what: &str, error: &BrokerError) -> Finding {
    Finding::warning(format!("whether {name} {what} could not be looked at: {error}"), "look again later")
}

async fn bounded<T>(most: Duration, asked: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
    let late = || Err(BrokerError::Unavailable(format!("no answer within {} ms", most.as_millis())));
    tokio::time::timeout(most, asked).await.unwrap_or_else(|_| late())
}

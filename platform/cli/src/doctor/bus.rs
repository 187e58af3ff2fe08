//! Checks the path over the bus: all parts use the same bus, relays run, and the broker matches the topology.

use super::{CheckContext, DoctorFinding, humanize};
use jiff::Timestamp;
use onceward::{Config, Platform, admin::backlog::queue_backlogs, admin::relays, connect};
use onceward_broker::{Broker, BrokerError, BusKind};
use onceward_message_log::{
    routes::OUTBOX,
    stats::{self, at_least},
    unrouted,
};
use onceward_topology::QueueKind;
use std::{future::Future, time::Duration};

pub(super) async fn same_bus(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let theirs = relays::recorded_bus(&context.db).await?;
    let ours = context.config.bus_kind().map_err(anyhow::Error::msg)?.name();
    if theirs == ours {
        return Ok(Vec::new());
    }
    Ok(vec![DoctorFinding::critical(
        format!("the database is set up for {theirs}, but the settings name {ours}"),
        "set BROKER_URL to that bus, or run `onceward migrate` to switch the database",
    )])
}

pub(super) async fn relays(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let bus = relays::recorded_bus(&context.db).await?;
    if bus == BusKind::Postgres.name() {
        return Ok(Vec::new());
    }
    let mut relays = relays::relays(&context.db).await?;
    relays.retain(|relay| relay.is_alive);
    if relays.is_empty() {
        let what = "no relay is running, so messages wait in the outbox";
        return Ok(vec![DoctorFinding::critical(what, "run `onceward serve --role relay`")]);
    }
    let mut findings = Vec::new();
    for relay in relays {
        let name = &relay.relay;
        if relay.bus != bus {
            let what = format!("relay {name} publishes to {}, but the database is set up for {bus}", relay.bus);
            findings.push(DoctorFinding::critical(what, "restart it with the same settings as the other processes"));
        } else if !relay.up {
            let error = relay.last_error.as_deref().unwrap_or("no reason given");
            let what = format!("relay {name} has not reached {bus} since {}: {error}", relay.since);
            findings.push(DoctorFinding::critical(
                what,
                "check the broker and the network; messages wait in the outbox meanwhile",
            ));
        }
    }
    Ok(findings)
}

/// Finds messages that wait for a bus to which no relay publishes any more.
pub(super) async fn leftovers(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    if relays::recorded_bus(&context.db).await? != BusKind::Postgres.name() {
        return Ok(Vec::new());
    }
    let stats = stats::queue_stats(&context.db).await?;
    let left: i64 = stats.iter().filter(|stats| stats.queue == OUTBOX).map(|stats| stats.depth + stats.deferred).sum();
    if left == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![DoctorFinding::critical(
        format!("{left} messages wait for an external bus, but the bus is now PostgreSQL"),
        "run `onceward serve --role relay --role worker` with the previous BROKER_URL until they are published",
    )])
}

/// Finds messages on the bus whose consumers do not run, and dead-letter queues that nothing empties.
pub(super) async fn backlog(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let CheckContext { platform, config, db, .. } = context;
    let Some(broker) = connect::connect_with_positions(config, platform.topology(), db)? else { return Ok(Vec::new()) };
    // Less than the time limit of the check, so that a broker that does not respond is reported by name.
    let timeout = context.limits.per_check / 2;
    let counts = queue_backlogs(&*broker, db, platform.topology(), timeout, config.bus.prefetch).await;
    broker.close().await;
    let (name, now, mut findings) = (broker.name(), Timestamp::now(), Vec::new());
    for count in counts.map_err(anyhow::Error::msg)? {
        let (queue, waiting, age_s) = (&count.queue, count.waiting.unwrap_or(0), count.lag_seconds(now));
        let is_read = platform.consumers().any(|consumer| consumer.queue() == queue);
        let is_store = platform.topology().find_queue(queue).is_some_and(|queue| queue.kind == QueueKind::DeadLetter);
        if is_read && waiting > 0 && age_s > context.stalled_after_s() {
            findings.push(DoctorFinding::critical(
                format!("{waiting} messages wait on {name} in queue {queue}, the oldest for {}", humanize(age_s)),
                "run `onceward serve --role worker`, or read the workers' logs to see why they do not receive them",
            ));
        } else if is_store && !is_read && waiting > config.bus.dead_letters_max {
            findings.push(DoctorFinding::warning(
                format!(
                    "the dead-letter queue {queue} on {name} holds {waiting} messages, more than bus.dead_letters_max ({})",
                    config.bus.dead_letters_max
                ),
                "run `onceward serve --role scheduler`, which removes the excess, or `onceward dlq collect`",
            ));
        }
    }
    Ok(findings)
}

/// Finds published messages that should be handled but never will be: their type has a handler, or belongs to no
/// service. They are dropped with their partition of the log. A fact of a service without a subscriber is only listed
/// by `outbox status`.
pub(super) async fn unrouted(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let mut unrouted = unrouted::unrouted(&context.db).await?;
    unrouted.retain(|one| !context.platform.is_unsubscribed(&one.event_type));
    let Some(timeout) = unrouted.first() else { return Ok(Vec::new()) };
    let (messages, is_more) = unrouted::total(&unrouted);
    Ok(vec![DoctorFinding::warning(
        format!(
            "no queue was bound to {} published messages of {} event types, most of them {} (for example to {}), so they are not handled",
            at_least(messages, is_more),
            unrouted.len(),
            timeout.event_type,
            timeout.example_topic
        ),
        "bind a queue to their topics, or correct the topics; `onceward outbox status` lists them. \
         They are removed after retention.keep_days",
    )])
}

/// Checks the broker that the settings name, regardless of the bus that the database is set up for.
pub(super) async fn broker(
    platform: &Platform,
    config: &Config,
    timeout: Duration,
) -> anyhow::Result<Vec<DoctorFinding>> {
    let Some(broker) = connect::connect(config, platform.topology())? else { return Ok(Vec::new()) };
    let findings = check_broker(&*broker, timeout).await;
    broker.close().await;
    Ok(findings)
}

async fn check_broker(broker: &dyn Broker, timeout: Duration) -> Vec<DoctorFinding> {
    let name = broker.name();
    // Less than the time limit of the check, so that a broker that does not respond is reported by name.
    let each = timeout / 4;
    if let Err(error) = bounded(each, broker.ping()).await {
        let advice = "check the broker and the network, or correct BROKER_URL";
        return vec![DoctorFinding::critical(format!("{name} does not respond: {error}"), advice)];
    }
    let mut findings = Vec::new();
    match bounded(each, broker.check()).await {
        Ok(differences) => findings.extend(differences.into_iter().map(|difference| {
            let what = format!(
                "{} differs on {name}: declared {}, found {}",
                difference.what, difference.declared, difference.found
            );
            DoctorFinding::warning(what, difference.advice)
        })),
        Err(error) => findings.push(unknown(name, "differs from the topology", &error)),
    }
    if let Ok(unchecked) = bounded(each, broker.unchecked()).await {
        let finding = |what: &String| match what.rsplit_once(": ") {
            Some((what, advice)) => DoctorFinding::warning(format!("{name}: {what}"), advice),
            None => DoctorFinding::warning(format!("{name}: {what}"), "see the broker's documentation"),
        };
        findings.extend(unchecked.iter().map(finding));
    }
    match bounded(each, broker.advise()).await {
        // A broker's advice is one sentence: the problem, a colon, and what to do.
        Ok(advice) => findings.extend(advice.iter().map(|advice| match advice.rsplit_once(": ") {
            Some((what, advice)) => DoctorFinding::warning(format!("{name}: {what}"), advice),
            None => DoctorFinding::warning(format!("{name}: {advice}"), "see the broker's documentation"),
        })),
        Err(error) => findings.push(unknown(name, "is configured safely", &error)),
    }
    findings
}

fn unknown(name: &str, what: &str, error: &BrokerError) -> DoctorFinding {
    DoctorFinding::warning(
        format!("whether {name} {what} could not be checked: {error}"),
        "run `onceward doctor` again later",
    )
}

async fn bounded<T>(
    timeout: Duration,
    response: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    let timed_out = || Err(BrokerError::Unavailable(format!("no response within {} ms", timeout.as_millis())));
    tokio::time::timeout(timeout, response).await.unwrap_or_else(|_| timed_out())
}

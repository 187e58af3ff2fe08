//! Writes the topology into the database and reports what changed.

use crate::{
    BusError,
    triage::{Operator, audit::not_recorded},
};
use onceward_audit::{Entry, owner_action};
use onceward_broker::BusKind;
use onceward_db::{DbConfig, DbError, Row, migrate::owner};
use onceward_topology::{ExchangeKind, Queue, QueueKind, Topology, pattern};
use serde_json::{Map, Value};
use tokio_postgres::Transaction;

/// Updates the database's routes to match `topology` and sets `bus` as the carrier of messages. Exchanges and queues
/// are never removed; a queue whose shards or priorities differ is an error, because messages of one key would change
/// lanes. Returns whether anything changed.
pub async fn declare(config: &DbConfig, topology: &Topology, bus: BusKind) -> Result<bool, BusError> {
    Ok(!declare_and_report(config, topology, bus, None, &[]).await?.is_empty())
}

/// Like [`declare`], but returns the changes. Changes by `operator` are recorded in the platform's audit chain, in the
/// same commit, together with what the same operator has just created on the broker.
pub async fn declare_and_report(
    config: &DbConfig,
    topology: &Topology,
    bus: BusKind,
    operator: Option<&Operator>,
    on_broker: &[String],
) -> Result<Vec<String>, BusError> {
    if let Err(problems) = topology.validate() {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(BusError::Topology(format!("the topology is invalid: {}", problems.join("; "))));
    }
    let mut client = owner(config).await?;
    let tx = client.transaction().await.map_err(DbError::from)?;
    let changed = declare_in(&tx, topology, bus).await?;
    if let Some(operator) = operator {
        record(&tx, operator, &changed, on_broker).await?;
    }
    tx.commit().await.map_err(DbError::from)?;
    Ok(changed)
}

/// Records what `operator` created on the broker when nothing is declared in the database.
pub async fn record_on_broker(config: &DbConfig, operator: &Operator, on_broker: &[String]) -> Result<(), BusError> {
    if on_broker.is_empty() {
        return Ok(());
    }
    let mut client = owner(config).await?;
    let tx = client.transaction().await.map_err(DbError::from)?;
    record(&tx, operator, &[], on_broker).await?;
    tx.commit().await.map_err(DbError::from)?;
    Ok(())
}

/// Adds an entry to the platform's audit chain, unless nothing changed.
async fn record(
    tx: &Transaction<'_>,
    operator: &Operator,
    changed: &[String],
    on_broker: &[String],
) -> Result<(), BusError> {
    if changed.is_empty() && on_broker.is_empty() {
        return Ok(());
    }
    let details = [("changed", changed), ("changedOnBroker", on_broker)];
    let details = Map::from_iter(details.map(|(name, what)| (name.to_owned(), Value::from(what.to_vec()))));
    let (statement, entries) =
        owner_action(operator, Entry::new("topology_declared"), details).map_err(not_recorded)?;
    tx.execute(statement, &[&entries]).await.map_err(DbError::from)?;
    Ok(())
}

async fn declare_in(tx: &Transaction<'_>, topology: &Topology, bus: BusKind) -> Result<Vec<String>, BusError> {
    // Only one process declares at a time; publishers only read this row, so they do not wait.
    let version = "SELECT topology_version FROM onceward.log_state FOR UPDATE";
    tx.query_one(version, &[]).await.map_err(DbError::from)?;
    let other_bus = "UPDATE onceward.log_state SET bus = $1 WHERE bus <> $1";
    let mut changed = Vec::new();
    if tx.execute(other_bus, &[&bus.name()]).await.map_err(DbError::from)? > 0 {
        changed.push(format!("bus {}", bus.name()));
    }
    for exchange in &topology.exchanges {
        if declare_exchange(tx, &exchange.name, exchange.kind).await? {
            changed.push(format!("exchange {}", exchange.name));
        }
    }
    for queue in topology.queues.iter().filter(|queue| queue.kind == QueueKind::Work) {
        if declare_queue(tx, queue).await? {
            changed.push(format!("queue {}", queue.name));
        }
        changed.extend(bind(tx, topology, queue).await?);
    }
    if !changed.is_empty() {
        tx.execute("UPDATE onceward.log_state SET topology_version = topology_version + 1", &[])
            .await
            .map_err(DbError::from)?;
    }
    Ok(changed)
}

async fn declare_exchange(tx: &Transaction<'_>, name: &str, kind: ExchangeKind) -> Result<bool, BusError> {
    let kind = kind.as_str();
    let known =
        tx.query_opt("SELECT kind FROM onceward.exchange WHERE name = $1", &[&name]).await.map_err(DbError::from)?;
    match known {
        Some(row) if row.get::<_, &str>(0) == kind => Ok(false),
        Some(row) => Err(BusError::Topology(format!(
            "exchange \"{name}\" exists as {} and is declared as {kind}; give the new one another name",
            row.get::<_, &str>(0)
        ))),
        None => {
            tx.execute("INSERT INTO onceward.exchange (name, kind) VALUES ($1, $2)", &[&name, &kind])
                .await
                .map_err(DbError::from)?;
            Ok(true)
        }
    }
}

async fn declare_queue(tx: &Transaction<'_>, queue: &Queue) -> Result<bool, BusError> {
    let shards = i16::try_from(queue.shards).unwrap_or(i16::MAX);
    let max_priority = i16::from(queue.max_priority.unwrap_or(0));
    let definition = serde_json::to_value(queue).map_err(|error| BusError::Malformed(error.to_string()))?;
    let known = tx
        .query_opt("SELECT shards, max_priority, definition FROM onceward.queue WHERE name = $1", &[&queue.name])
        .await
        .map_err(DbError::from)?;
    if let Some(row) = known {
        let (known_shards, known_priority): (i16, i16) = (row.get(0), row.get(1));
        if (known_shards, known_priority) != (shards, max_priority) {
            return Err(BusError::Topology(format!(
                "queue \"{}\" exists with {known_shards} shards and priorities up to {known_priority}, and is declared with \
                 {shards} and {max_priority}: messages of one key would change lanes and lose their order; declare a new queue instead",
                queue.name
            )));
        }
        if row.get::<_, serde_json::Value>(2) == definition {
            return Ok(false);
        }
    }
    tx.execute(
        "INSERT INTO onceward.queue (name, shards, max_priority, definition) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition",
        &[&queue.name, &shards, &max_priority, &definition],
    )
    .await
    .map_err(DbError::from)?;
    Ok(true)
}

/// Sets the queue's bindings to exactly those declared. Returns those that differed.
async fn bind(tx: &Transaction<'_>, topology: &Topology, queue: &Queue) -> Result<Vec<String>, BusError> {
    let mut exchanges = Vec::new();
    let mut patterns = Vec::new();
    let mut regexes = Vec::new();
    for binding in topology.bindings.iter().filter(|binding| binding.queue == queue.name) {
        let kind = topology.find_exchange(&binding.exchange).map_or(ExchangeKind::Direct, |exchange| exchange.kind);
        exchanges.push(binding.exchange.as_str());
        patterns.push(binding.pattern.as_str());
        regexes.push(pattern::to_regex(kind, &binding.pattern));
    }
    let removed = tx
        .query(
            "DELETE FROM onceward.binding b USING onceward.queue q
             WHERE q.name = $1 AND b.queue_id = q.id
               AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::text[]) AS d(e, p) WHERE d.e = b.exchange AND d.p = b.pattern)
             RETURNING b.exchange, b.pattern",
            &[&queue.name, &exchanges, &patterns],
        )
        .await
        .map_err(DbError::from)?;
    let added = tx
        .query(
            "INSERT INTO onceward.binding (exchange, queue_id, pattern, regex)
             SELECT d.e, q.id, d.p, d.r FROM unnest($2::text[], $3::text[], $4::text[]) AS d(e, p, r), onceward.queue q
             WHERE q.name = $1 ON CONFLICT DO NOTHING
             RETURNING exchange, pattern",
            &[&queue.name, &exchanges, &patterns, &regexes],
        )
        .await
        .map_err(DbError::from)?;
    let describe = |row: &Row| format!("{}: {} <- {}", queue.name, row.get::<_, &str>(0), row.get::<_, &str>(1));
    let added = added.iter().map(|row| format!("binding {}", describe(row)));
    Ok(added.chain(removed.iter().map(|row| format!("no longer binding {}", describe(row)))).collect())
}

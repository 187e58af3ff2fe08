//! Compares the routes in the database with the topology of this program.

use crate::{
    BusError,
    routes::{self, OUTBOX},
    stats,
};
use onceward_broker::{BusKind, TopologyDifference};
use onceward_db::{Db, Row};
use onceward_topology::{Queue, QueueKind, Topology};
use std::collections::BTreeMap;

/// How a difference is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Declaring the topology removes it.
    Declare,
    /// Declaring fails, because what exists cannot be changed in place.
    Manual,
    /// It is left over from another topology, and declaring leaves it alone.
    Leftover,
}

const DECLARE: &str = "run `onceward topology declare`";

/// Returns all differences. Changes nothing.
pub async fn compare(
    db: &Db,
    topology: &Topology,
    bus: BusKind,
) -> Result<Vec<(Remedy, TopologyDifference)>, BusError> {
    let connection = db.connection().await?;
    let found_bus: String = connection.query(routes::TOPOLOGY_VERSION, &[]).await?[0].get("bus");
    let exchanges = connection.query(routes::EXCHANGES, &[]).await?;
    let queues = connection.query(routes::QUEUES, &[]).await?;
    let bindings = connection.query(routes::BINDINGS, &[]).await?;
    drop(connection);
    let mut differences = Differences::default();
    if found_bus != bus.name() {
        let advice = format!("{DECLARE} to switch, or set BROKER_URL to the bus that the database is set up for");
        differences.add(Remedy::Declare, "bus", bus.name(), found_bus, advice);
    }
    compare_exchanges(topology, &exchanges, &mut differences);
    let names: BTreeMap<i32, String> = queues.iter().map(|row| (row.get("id"), row.get("name"))).collect();
    let leftovers = compare_queues(topology, &queues, &mut differences)?;
    compare_bindings(topology, &bindings, &names, &mut differences);
    if !leftovers.is_empty() {
        let waiting = stats::queue_stats(db).await?;
        for queue in leftovers {
            let bound = bindings.iter().filter(|row| names.get(&row.get("queue_id")) == Some(&queue)).count();
            let stats = waiting.iter().find(|stats| stats.queue == queue);
            differences.leftover_queue(&queue, bound, stats.map_or(0, |stats| stats.depth + stats.deferred));
        }
    }
    Ok(differences.0)
}

#[derive(Default)]
struct Differences(Vec<(Remedy, TopologyDifference)>);

impl Differences {
    fn add(
        &mut self,
        remedy: Remedy,
        what: impl Into<String>,
        declared: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let (what, declared, found, advice) = (what.into(), declared.into(), found.into(), advice.into());
        self.0.push((remedy, TopologyDifference { what, declared, found, advice }));
    }

    fn leftover_queue(&mut self, queue: &str, bindings: usize, messages: i64) {
        let advice = if bindings > 0 {
            format!(
                "it still receives messages that no consumer reads, so old partitions cannot be dropped: as the owner of the \
                 database run `SELECT onceward.unbind_queue('{}')`, and let a release that reads the queue empty it",
                queue.replace('\'', "''")
            )
        } else if messages > 0 {
            "let a release that reads it empty it; until then old partitions cannot be dropped".to_owned()
        } else {
            "it is empty and harmless".to_owned()
        };
        let found = format!("a queue with {bindings} bindings and {messages} messages");
        self.add(Remedy::Leftover, format!("queue {queue}"), "nothing", found, advice);
    }
}

fn compare_exchanges(topology: &Topology, found: &[Row], differences: &mut Differences) {
    for exchange in &topology.exchanges {
        let what = format!("exchange {}", exchange.name);
        let kind: Option<&str> =
            found.iter().find(|row| row.get::<_, &str>("name") == exchange.name).map(|row| row.get("kind"));
        match kind {
            None => differences.add(Remedy::Declare, what, exchange.kind.as_str(), "nothing", DECLARE),
            Some(kind) if kind != exchange.kind.as_str() => {
                let advice = "the kind of an exchange cannot be changed; give the new exchange another name";
                differences.add(Remedy::Manual, what, exchange.kind.as_str(), kind, advice);
            }
            Some(_) => {}
        }
    }
    for row in found {
        let (name, kind): (&str, &str) = (row.get("name"), row.get("kind"));
        if topology.find_exchange(name).is_none() {
            let advice = "it is harmless; publishers that still use it are not refused";
            differences.add(Remedy::Leftover, format!("exchange {name}"), "nothing", kind, advice);
        }
    }
}

/// Compares the queues. Returns the names of those that the topology no longer contains.
fn compare_queues(topology: &Topology, found: &[Row], differences: &mut Differences) -> Result<Vec<String>, BusError> {
    let work = |queue: &&Queue| queue.kind == QueueKind::Work;
    for queue in topology.queues.iter().filter(work) {
        let what = format!("queue {}", queue.name);
        let lanes = lanes(i32::from(queue.shards), i32::from(queue.max_priority.unwrap_or(0)));
        let Some(row) = found.iter().find(|row| row.get::<_, &str>("name") == queue.name) else {
            differences.add(Remedy::Declare, what, lanes, "nothing", DECLARE);
            continue;
        };
        let found_lanes = self::lanes(row.get::<_, i16>("shards").into(), row.get::<_, i16>("max_priority").into());
        if found_lanes != lanes {
            let advice = "messages of one key would change lanes and lose their order; declare a new queue instead";
            differences.add(Remedy::Manual, what, lanes, found_lanes, advice);
            continue;
        }
        let declared = serde_json::to_value(queue).map_err(|error| BusError::Malformed(error.to_string()))?;
        let known: serde_json::Value = row.get("definition");
        if known != declared {
            differences.add(Remedy::Declare, what, declared.to_string(), known.to_string(), DECLARE);
        }
    }
    let known = |name: &str| name == OUTBOX || topology.find_queue(name).is_some_and(|queue| work(&queue));
    Ok(found.iter().map(|row| row.get::<_, String>("name")).filter(|name| !known(name)).collect())
}

fn lanes(shards: i32, max_priority: i32) -> String {
    format!("{shards} shards, priorities up to {max_priority}")
}

fn compare_bindings(topology: &Topology, found: &[Row], names: &BTreeMap<i32, String>, differences: &mut Differences) {
    let found: Vec<(&str, &str, &str)> = found
        .iter()
        .filter_map(|row| Some((names.get(&row.get("queue_id"))?.as_str(), row.get("exchange"), row.get("pattern"))))
        .collect();
    let work = |name: &str| topology.find_queue(name).is_some_and(|queue| queue.kind == QueueKind::Work);
    let declared: Vec<(&str, &str, &str)> = topology
        .bindings
        .iter()
        .filter(|binding| work(&binding.queue))
        .map(|binding| (binding.queue.as_str(), binding.exchange.as_str(), binding.pattern.as_str()))
        .collect();
    for (queue, exchange, pattern) in declared.iter().filter(|binding| !found.contains(binding)) {
        let advice = format!("its messages do not reach the queue; {DECLARE}");
        let binding = format!("{exchange} <- {pattern}");
        differences.add(Remedy::Declare, format!("binding of {queue}"), binding, "nothing", advice);
    }
    for (queue, exchange, pattern) in found.iter().filter(|binding| work(binding.0) && !declared.contains(binding)) {
        let advice = format!("the queue receives messages that the topology does not route to it; {DECLARE}");
        let binding = format!("{exchange} <- {pattern}");
        differences.add(Remedy::Declare, format!("binding of {queue}"), "nothing", binding, advice);
    }
}

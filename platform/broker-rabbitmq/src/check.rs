//! Compares exchanges and queues on the broker with the topology.
//!
//! AMQP cannot list the arguments of a queue. But when an existing queue is declared again, RabbitMQ names the first
//! argument that differs and its value. So it is declared again with that value, until the declaration succeeds.

use crate::{
    admin_channel::{AdminChannel, Declared},
    arguments::{Arguments, EntityKind},
};
use onceward_broker::{BrokerError, TopologyDifference};
use onceward_topology::Topology;

/// More than there are arguments.
const ATTEMPTS_MAX: usize = 32;

pub(crate) async fn check(
    admin: &mut AdminChannel,
    topology: &Topology,
) -> Result<Vec<TopologyDifference>, BrokerError> {
    let mut differences = Vec::new();
    for (kind, name, arguments) in entities(topology) {
        if admin.has(kind, &name).await? {
            differences.extend(compare(admin, kind, &name, arguments).await?);
        } else {
            differences.push(TopologyDifference {
                what: format!("{kind} {name}"),
                declared: arguments.to_string(),
                found: "nothing".to_owned(),
                advice: "run `onceward topology declare`".to_owned(),
            });
        }
    }
    Ok(differences)
}

/// Returns all exchanges and queues with their arguments, in the order of declaration.
pub(crate) fn entities(topology: &Topology) -> Vec<(EntityKind, String, Arguments)> {
    let exchanges = topology.exchanges.iter();
    let exchanges =
        exchanges.map(|exchange| (EntityKind::Exchange, exchange.name.clone(), Arguments::of_exchange(exchange)));
    let queues =
        topology.queues.iter().map(|queue| (EntityKind::Queue, queue.name.clone(), Arguments::of_queue(queue)));
    exchanges.chain(queues).collect()
}

/// Returns all differences of an existing exchange or queue.
pub(crate) async fn compare(
    admin: &mut AdminChannel,
    kind: EntityKind,
    name: &str,
    declared: Arguments,
) -> Result<Vec<TopologyDifference>, BrokerError> {
    let difference = |declared: String, found: String| TopologyDifference {
        what: format!("{kind} {name}"),
        declared,
        found,
        advice: format!(
            "RabbitMQ cannot change it: correct the topology, or delete the {kind} once it is empty and run \
             `onceward topology declare`"
        ),
    };
    let mut differences = Vec::new();
    let mut arguments = declared.clone();
    for _ in 0..ATTEMPTS_MAX {
        let Declared::Differs(text) = admin.declare(kind, name, &arguments).await? else {
            break;
        };
        let Some((argument, found)) = arguments.differing(&text) else {
            differences.push(difference(declared.to_string(), text));
            break;
        };
        let show = |value: Option<String>| format!("{argument}={}", value.unwrap_or_else(|| "none".to_owned()));
        differences.push(difference(
            show(declared.get(&argument).map(ToString::to_string)),
            show(found.as_ref().map(ToString::to_string)),
        ));
        arguments.set(argument, found);
    }
    Ok(differences)
}

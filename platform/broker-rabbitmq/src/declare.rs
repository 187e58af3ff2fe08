//! Creating missing exchanges, queues and bindings.

use crate::{
    admin_channel::AdminChannel,
    arguments::EntityKind,
    check::{compare, entities},
};
use onceward_broker::{BrokerError, TopologyDifference};
use onceward_topology::Topology;

/// Creates what is missing and returns its names. Leaves what differs unchanged, and fails for it after creating the rest.
pub(crate) async fn declare(admin: &mut AdminChannel, topology: &Topology) -> Result<Vec<String>, BrokerError> {
    let mut created = Vec::new();
    let mut differences = Vec::new();
    for (kind, name, arguments) in entities(topology) {
        if admin.has(kind, &name).await? {
            differences.extend(compare(admin, kind, &name, arguments).await?);
        } else {
            admin.declare(kind, &name, &arguments).await?;
            created.push(format!("{kind} {name}"));
        }
    }
    let bindings = topology.bindings.iter();
    for binding in bindings {
        admin.bind(binding).await?;
        // The broker does not report whether the binding is new, but those of a new queue or exchange are.
        let is_new = |kind: EntityKind, name: &str| created.contains(&format!("{kind} {name}"));
        if is_new(EntityKind::Queue, &binding.queue) || is_new(EntityKind::Exchange, &binding.exchange) {
            created.push(format!("binding {} -> {} ({})", binding.exchange, binding.queue, binding.pattern));
        }
    }
    if differences.is_empty() { Ok(created) } else { Err(differences_error(&differences)) }
}

fn differences_error(differences: &[TopologyDifference]) -> BrokerError {
    let all: Vec<String> = differences
        .iter()
        .map(|difference| {
            format!("{} is declared with {} but has {}", difference.what, difference.declared, difference.found)
        })
        .collect();
    BrokerError::Misconfigured(format!(
        "{}. Nothing was deleted or changed, and everything else was declared. RabbitMQ cannot change these: correct the \
         topology, or delete them once they are empty and run `onceward topology declare` again",
        all.join("; ")
    ))
}

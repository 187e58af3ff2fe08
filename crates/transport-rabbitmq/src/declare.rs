//! Making what is missing.

use crate::{
    check::{compare, things},
    clerk::Clerk,
    shape::Thing,
};
use onceward_topology::Topology;
use onceward_transport::{BrokerError, Difference};

/// Makes what is missing and gives its names. What is there and differs is left alone, and is an error after all the rest.
pub(crate) async fn declare(clerk: &mut Clerk, topology: &Topology) -> Result<Vec<String>, BrokerError> {
    let mut made = Vec::new();
    let mut differences = Vec::new();
    for (thing, name, shape) in things(topology) {
        if clerk.has(thing, &name).await? {
            differences.extend(compare(clerk, thing, &name, shape).await?);
        } else {
            clerk.declare(thing, &name, &shape).await?;
            made.push(format!("{thing} {name}"));
        }
    }
    let bindings = topology.bindings.iter();
    for binding in bindings {
        clerk.bind(binding).await?;
        // The broker does not say whether it was bound before, but a new queue or exchange cannot have been.
        let is_new = |thing: Thing, name: &str| made.contains(&format!("{thing} {name}"));
        if is_new(Thing::Queue, &binding.queue) || is_new(Thing::Exchange, &binding.exchange) {
            made.push(format!("binding {} -> {} ({})", binding.exchange, binding.queue, binding.pattern));
        }
    }
    if differences.is_empty() { Ok(made) } else { Err(left_alone(&differences)) }
}

fn left_alone(differences: &[Difference]) -> BrokerError {
    let all: Vec<String> = differences
        .iter()
        .map(|difference| {
            format!("{} is declared with {} and has {}", difference.what, difference.declared, difference.found)
        })
        .collect();
    BrokerError::Misconfigured(format!(
        "{}. Nothing was deleted or changed, and everything else is declared. RabbitMQ cannot change these: correct the \
         topology, or delete them once they are empty and declare again",
        all.join("; ")
    ))
}

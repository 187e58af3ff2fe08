//! Where the broker differs from the topology.
//!
//! RabbitMQ does not tell over AMQP what a queue is like. But asked to declare one that is there, it names the first
//! argument that differs, and its value. So it is asked again with that value, until it has nothing to complain of.

use crate::{
    clerk::{Clerk, Declared},
    shape::{Shape, Thing},
};
use onceward_topology::Topology;
use onceward_transport::{BrokerError, Difference};

/// More than there are arguments.
const QUESTIONS_MAX: usize = 32;

pub(crate) async fn check(clerk: &mut Clerk, topology: &Topology) -> Result<Vec<Difference>, BrokerError> {
    let mut differences = Vec::new();
    for (thing, name, shape) in things(topology) {
        if clerk.has(thing, &name).await? {
            differences.extend(compare(clerk, thing, &name, shape).await?);
        } else {
            differences.push(Difference {
                what: format!("{thing} {name}"),
                declared: shape.to_string(),
                found: "nothing".to_owned(),
                advice: "run `onceward topology declare`".to_owned(),
            });
        }
    }
    Ok(differences)
}

/// Everything that can be declared, in an order in which it can be.
pub(crate) fn things(topology: &Topology) -> Vec<(Thing, String, Shape)> {
    let exchanges = topology.exchanges.iter();
    let exchanges = exchanges.map(|exchange| (Thing::Exchange, exchange.name.clone(), Shape::of_exchange(exchange)));
    let queues = topology.queues.iter().map(|queue| (Thing::Queue, queue.name.clone(), Shape::of_queue(queue)));
    exchanges.chain(queues).collect()
}

/// All differences of something that is there.
pub(crate) async fn compare(
    clerk: &mut Clerk,
    thing: Thing,
    name: &str,
    declared: Shape,
) -> Result<Vec<Difference>, BrokerError> {
    let difference = |declared: String, found: String| Difference {
        what: format!("{thing} {name}"),
        declared,
        found,
        advice: format!(
            "RabbitMQ cannot change it: correct the topology, or delete the {thing} once it is empty and run \
             `onceward topology declare`"
        ),
    };
    let mut differences = Vec::new();
    let mut asked = declared.clone();
    for _ in 0..QUESTIONS_MAX {
        let Declared::Differs(text) = clerk.declare(thing, name, &asked).await? else {
            break;
        };
        let Some((argument, found)) = asked.differing(&text) else {
            differences.push(difference(declared.to_string(), text));
            break;
        };
        let show = |value: Option<String>| format!("{argument}={}", value.unwrap_or_else(|| "none".to_owned()));
        differences.push(difference(
            show(declared.get(&argument).map(ToString::to_string)),
            show(found.as_ref().map(ToString::to_string)),
        ));
        asked.set(argument, found);
    }
    Ok(differences)
}

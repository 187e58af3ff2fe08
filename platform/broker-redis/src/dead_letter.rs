//! Moves entries that reached the delivery limit to the dead-letter queues.

use crate::{
    entry,
    session::{DeliveredEntry, ReaderSession},
};
use onceward_broker::{Arrival, BrokerError, DeadReason, wire};
use onceward_topology::{Topic, Topology};

/// Header: why the entry was dead-lettered.
const DEATH_REASON: &str = "x-death-reason";
/// Header: the queue it came from.
const DEATH_QUEUE: &str = "x-death-queue";

/// Returns the delivery limit of a queue; 0 if there is none, or no dead-letter queue for entries beyond it.
pub(crate) fn delivery_limit(topology: &Topology, queue: &str) -> u16 {
    let queue = topology.find_queue(queue);
    match queue.and_then(|queue| Some((queue.delivery_limit?, queue.dead_letter.as_ref()?))) {
        Some((limit, to)) if topology.bindings.iter().any(|binding| binding.exchange == to.exchange) => limit,
        _ => 0,
    }
}

/// Moves entries to the queue's dead-letter queues. Returns `false` if another reader has the queue now.
pub(crate) async fn move_exhausted(
    topology: &Topology,
    queue: &str,
    session: &mut ReaderSession,
    exhausted: Vec<DeliveredEntry>,
) -> Result<bool, BrokerError> {
    let headers = [(DEATH_REASON, DeadReason::DeliveryLimit.as_str()), (DEATH_QUEUE, queue)];
    for (id, deliveries, fields) in exhausted {
        let arrival = entry::arrival(fields, deliveries, queue);
        if !session.dead_letter(&id, &targets(topology, queue, &arrival), &headers).await? {
            return Ok(false);
        }
        tracing::warn!(queue, deliveries, "a message reached the delivery limit and was dead-lettered");
    }
    Ok(true)
}

/// Returns the dead-letter queues for an entry. If its key matches no binding, all queues of the exchange: it must not be lost.
fn targets<'a>(topology: &'a Topology, queue: &str, arrival: &Arrival) -> Vec<&'a str> {
    let Some(to) = topology.find_queue(queue).and_then(|queue| queue.dead_letter.as_ref()) else {
        return Vec::new();
    };
    let topic = arrival.header(wire::TOPIC).and_then(|topic| topic.parse::<Topic>().ok());
    let key = to.routing_key.clone().or(topic.map(|topic| topic.routing_key)).unwrap_or_default();
    match topology.route(&to.exchange, &key) {
        Ok(queues) if !queues.is_empty() => queues,
        _ => {
            let bound = topology.bindings.iter().filter(|binding| binding.exchange == to.exchange);
            let mut queues: Vec<&str> = bound.map(|binding| binding.queue.as_str()).collect();
            queues.sort_unstable();
            queues.dedup();
            queues
        }
    }
}

//! Where an entry goes that was handed out too often.

use crate::{
    entry,
    session::{Entry, Session},
};
use onceward_topology::{Topic, Topology};
use onceward_transport::{Arrival, BrokerError, DeadReason, wire};

/// Why it is there.
const DEATH_REASON: &str = "x-death-reason";
/// Where it was before.
const DEATH_QUEUE: &str = "x-death-queue";

/// How often an entry of a queue is handed out; 0 if there is no limit, or nowhere to put what exceeds it.
pub(crate) fn delivery_limit(topology: &Topology, queue: &str) -> u16 {
    let queue = topology.find_queue(queue);
    match queue.and_then(|queue| Some((queue.delivery_limit?, queue.dead_letter.as_ref()?))) {
        Some((limit, to)) if topology.bindings.iter().any(|binding| binding.exchange == to.exchange) => limit,
        _ => 0,
    }
}

/// Moves entries to where the queue's dead letters go; `false` if the queue is not ours any more.
pub(crate) async fn put_away(
    topology: &Topology,
    queue: &str,
    session: &mut Session,
    spent: Vec<Entry>,
) -> Result<bool, BrokerError> {
    let headers = [(DEATH_REASON, DeadReason::DeliveryLimit.as_str()), (DEATH_QUEUE, queue)];
    for (id, deliveries, fields) in spent {
        let arrival = entry::arrival(fields, deliveries, queue);
        if !session.bury(&id, &targets(topology, queue, &arrival), &headers).await? {
            return Ok(false);
        }
        tracing::warn!(queue, deliveries, "a message was handed out too often and put away");
    }
    Ok(true)
}

/// One with a key that leads nowhere goes to every queue behind the exchange: it must not be lost.
fn targets<'a>(topology: &'a Topology, queue: &str, arrival: &Arrival) -> Vec<&'a str> {
    let Some(to) = topology.find_queue(queue).and_then(|queue| queue.dead_letter.as_ref()) else {
        return Vec::new();
    };
    let topic = arrival.header(wire::TOPIC).and_then(|topic| topic.parse::<Topic>().ok());
    let key = to.routing_key.clone().or(topic.map(|topic| topic.routing_key)).unwrap_or_default();
    match topology.route(&to.exchange, &key) {
        Ok(queues) if !queues.is_empty() => queues,
        _ => {
            let behind = topology.bindings.iter().filter(|binding| binding.exchange == to.exchange);
            let mut queues: Vec<&str> = behind.map(|binding| binding.queue.as_str()).collect();
            queues.sort_unstable();
            queues.dedup();
            queues
        }
    }
}

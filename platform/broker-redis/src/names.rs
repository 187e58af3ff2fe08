//! The names of a queue's keys.

use onceward_broker::BrokerError;
use onceward_topology::Topology;

/// The keys of one queue. The braces make them one hash slot.
#[derive(Clone, Debug)]
pub(crate) struct QueueNames {
    /// The name of the queue and of its consumer group.
    pub queue: String,
    pub stream: String,
    pub lease: String,
}

impl QueueNames {
    pub fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), stream: stream(queue), lease: format!("onceward:{{{queue}}}:reader") }
    }

    /// Returns the names of a queue of the topology. Fails if the topology does not declare it.
    pub fn declared(topology: &Topology, queue: &str) -> Result<Self, BrokerError> {
        match topology.find_queue(queue) {
            Some(_) => Ok(Self::new(queue)),
            None => Err(BrokerError::Misconfigured(format!(
                "the queue \"{queue}\" is not declared: declare it in a service's topology"
            ))),
        }
    }
}

/// The stream of a queue.
pub(crate) fn stream(queue: &str) -> String {
    format!("onceward:{{{queue}}}:stream")
}

/// The error for a queue that is missing on the server.
pub(crate) fn missing(queue: &str) -> BrokerError {
    BrokerError::Missing(format!("queue \"{queue}\""))
}

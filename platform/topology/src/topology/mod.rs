//! Exchanges, queues and bindings as one value.

mod check;
mod merge;
mod queue;

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

pub use check::TopologyProblem;
pub use merge::MergeConflict;
pub use queue::{DeadLetter, Queue, QueueKind};

use crate::pattern;

/// How an exchange matches routing keys against its bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeKind {
    /// By pattern, with `*` and `#`.
    Topic,
    /// By equality.
    Direct,
    /// Every bound queue gets every message.
    Fanout,
}

impl ExchangeKind {
    /// Returns the name that brokers and tables use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Direct => "direct",
            Self::Fanout => "fanout",
        }
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An exchange, to which messages are published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Unique among exchanges; contains no `:`.
    pub name: String,
    /// How it routes.
    pub kind: ExchangeKind,
    /// The number of partitions on a bus that has them (Kafka); 8 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u16>,
}

impl Exchange {
    /// Creates an exchange that routes by pattern.
    pub fn topic(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Topic, partitions: None }
    }

    /// Creates an exchange that routes by equality.
    pub fn direct(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Direct, partitions: None }
    }

    /// Creates an exchange that routes to every bound queue.
    pub fn fanout(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Fanout, partitions: None }
    }

    /// Sets the number of partitions, 1 to 1024. It cannot be changed later, because ordering keys stay in their
    /// partition.
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = Some(partitions);
        self
    }
}

/// Routes messages whose key matches `pattern` from an exchange to a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// The queue.
    pub queue: String,
    /// The pattern that the routing key must match.
    pub pattern: String,
}

/// All exchanges, queues and bindings of a bus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topology {
    /// The exchanges.
    pub exchanges: Vec<Exchange>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// The routes from exchanges to queues.
    pub bindings: Vec<Binding>,
}

/// The exchange is not declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no exchange {exchange:?}: declare it in a service's topology")]
pub struct UnknownExchange {
    /// The name of the exchange.
    pub exchange: String,
}

impl Topology {
    /// Creates an empty topology.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an exchange.
    pub fn exchange(mut self, exchange: Exchange) -> Self {
        self.exchanges.push(exchange);
        self
    }

    /// Adds a queue.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queues.push(queue);
        self
    }

    /// Routes messages published to `exchange` with a key that matches `pattern` to `queue`.
    pub fn bind(mut self, exchange: impl Into<String>, pattern: impl Into<String>, queue: impl Into<String>) -> Self {
        self.bindings.push(Binding { exchange: exchange.into(), queue: queue.into(), pattern: pattern.into() });
        self
    }

    /// Returns the exchange with this name.
    pub fn find_exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.iter().find(|exchange| exchange.name == name)
    }

    /// Returns the queue with this name.
    pub fn find_queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// Returns the queues that a message reaches, sorted and distinct; none if no binding matches. Fails if the
    /// exchange is not declared.
    pub fn route(&self, exchange: &str, routing_key: &str) -> Result<Vec<&str>, UnknownExchange> {
        let kind = self.find_exchange(exchange).ok_or_else(|| UnknownExchange { exchange: exchange.to_owned() })?.kind;
        let queues: BTreeSet<&str> = self
            .bindings
            .iter()
            .filter(|binding| binding.exchange == exchange)
            .filter(|binding| pattern::matches(kind, &binding.pattern, routing_key))
            .map(|binding| binding.queue.as_str())
            .collect();
        Ok(queues.into_iter().collect())
    }

    /// Returns the topology sorted by name, without repetitions.
    pub fn normalized(&self) -> Self {
        let mut sorted = self.clone();
        sorted.exchanges.sort_by(|a, b| a.name.cmp(&b.name));
        sorted.exchanges.dedup();
        sorted.queues.sort_by(|a, b| a.name.cmp(&b.name));
        sorted.queues.dedup();
        sorted.bindings.sort();
        sorted.bindings.dedup();
        sorted
    }

    /// Returns the topology as JSON text that changes only when its meaning changes.
    pub fn snapshot(&self) -> String {
        // Serializing plain data to a value cannot fail.
        let value = serde_json::to_value(self.normalized()).unwrap_or_default();
        format!("{value:#}\n")
    }
}

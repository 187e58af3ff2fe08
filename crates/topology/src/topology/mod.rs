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

/// How an exchange compares a routing key with its bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeKind {
    /// By pattern, with `*` and `#`.
    Topic,
    /// By equality.
    Direct,
    /// Not at all: every bound queue gets every message.
    Fanout,
}

impl ExchangeKind {
    /// The name that brokers and tables use.
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

/// Where messages are published to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Unique among exchanges; holds no `:`.
    pub name: String,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Into how many parts a bus that splits it keeps it; 8 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u16>,
}

impl Exchange {
    /// Routes by pattern.
    pub fn topic(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Topic, partitions: None }
    }

    /// Routes by equality.
    pub fn direct(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Direct, partitions: None }
    }

    /// Routes to every bound queue.
    pub fn fanout(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ExchangeKind::Fanout, partitions: None }
    }

    /// Keeps it in so many parts on a bus that splits it, 1 to 1024. Keys stay in their part, so it is chosen once.
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = Some(partitions);
        self
    }
}

/// Lets messages whose key passes `pattern` from an exchange into a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// From here,
    pub exchange: String,
    /// to here,
    pub queue: String,
    /// if the routing key passes this.
    pub pattern: String,
}

/// Everything that is declared on a bus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topology {
    /// Where messages are published to.
    pub exchanges: Vec<Exchange>,
    /// Where they wait.
    pub queues: Vec<Queue>,
    /// How they get from one to the other.
    pub bindings: Vec<Binding>,
}

/// A message was routed through an exchange that is not declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no exchange {exchange:?}: declare it in a service's topology")]
pub struct UnknownExchange {
    /// Its name.
    pub exchange: String,
}

impl Topology {
    /// An empty topology.
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

    /// Lets what is published to `exchange` with a key that passes `pattern` into `queue`.
    pub fn bind(mut self, exchange: impl Into<String>, pattern: impl Into<String>, queue: impl Into<String>) -> Self {
        self.bindings.push(Binding { exchange: exchange.into(), queue: queue.into(), pattern: pattern.into() });
        self
    }

    /// The exchange of this name.
    pub fn find_exchange(&self, name: &str) -> Option<&Exchange> {
        self.exchanges.iter().find(|exchange| exchange.name == name)
    }

    /// The queue of this name.
    pub fn find_queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The queues that a message gets into: sorted, each once, none if no binding matches.
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

    /// The same topology in its one order: by name, without repetition.
    pub fn normalized(&self) -> Self {
        let mut same = self.clone();
        same.exchanges.sort_by(|a, b| a.name.cmp(&b.name));
        same.exchanges.dedup();
        same.queues.sort_by(|a, b| a.name.cmp(&b.name));
        same.queues.dedup();
        same.bindings.sort();
        same.bindings.dedup();
        same
    }

    /// The whole topology as text that changes only when its meaning does. It reads back as JSON.
    pub fn snapshot(&self) -> String {
        // A value first: plain data always has a value, so there is no error to hand on.
        let value = serde_json::to_value(self.normalized()).unwrap_or_default();
        format!("{value:#}\n")
    }
}

//! Queues, and where their dead letters go.

use serde::{Deserialize, Serialize};

const DEFAULT_SHARDS: u16 = 8;

/// The purpose of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Consumers handle its messages.
    #[default]
    Work,
    /// Operators handle its messages, which wait for triage.
    DeadLetter,
}

/// Where a queue sends messages that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// The exchange to which dead letters are published.
    pub exchange: String,
    /// The routing key of dead letters; `None` keeps the message's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
}

/// A queue, in which messages wait for consumers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Unique among queues.
    pub name: String,
    /// The purpose of the queue.
    #[serde(default)]
    pub kind: QueueKind,
    /// Where dead letters go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,
    /// The maximum number of deliveries of a message, which protects against messages that crash their consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_limit: Option<u16>,
    /// The maximum time that a message waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_ttl_ms: Option<u64>,
    /// The highest priority, 1 to 9; `None` if the queue has no priorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<u8>,
    /// The number of lanes per tenant on the PostgreSQL bus, 1 to 64. Each lane keeps its order.
    #[serde(default = "default_shards")]
    pub shards: u16,
}

impl Queue {
    /// Creates a queue whose messages are handled by consumers.
    pub fn work(name: impl Into<String>) -> Self {
        Self::of_kind(name.into(), QueueKind::Work)
    }

    /// Creates a queue whose messages wait for triage.
    pub fn dead_letter_store(name: impl Into<String>) -> Self {
        Self::of_kind(name.into(), QueueKind::DeadLetter)
    }

    /// Sends dead letters to `exchange`, with the message's own key.
    pub fn dead_letter(mut self, exchange: impl Into<String>) -> Self {
        self.dead_letter = Some(DeadLetter { exchange: exchange.into(), routing_key: None });
        self
    }

    /// Sends dead letters to `exchange`, with this key.
    pub fn dead_letter_as(mut self, exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        let (exchange, routing_key) = (exchange.into(), Some(routing_key.into()));
        self.dead_letter = Some(DeadLetter { exchange, routing_key });
        self
    }

    /// Sets the maximum number of deliveries of a message.
    pub fn delivery_limit(mut self, limit: u16) -> Self {
        self.delivery_limit = Some(limit);
        self
    }

    /// Sets the maximum time that a message waits.
    pub fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.message_ttl_ms = Some(ttl_ms);
        self
    }

    /// Delivers messages of higher priority first; `highest` is the highest priority.
    pub fn max_priority(mut self, highest: u8) -> Self {
        self.max_priority = Some(highest);
        self
    }

    /// Sets the number of lanes per tenant.
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }

    fn of_kind(name: String, kind: QueueKind) -> Self {
        Self {
            name,
            kind,
            dead_letter: None,
            delivery_limit: None,
            message_ttl_ms: None,
            max_priority: None,
            shards: DEFAULT_SHARDS,
        }
    }
}

fn default_shards() -> u16 {
    DEFAULT_SHARDS
}

//! A queue and what happens to a message that cannot be handled there.

use serde::{Deserialize, Serialize};

const SHARDS_DEFAULT: u16 = 8;

/// What a queue is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// Consumers handle its messages.
    #[default]
    Work,
    /// People do: its messages wait for triage.
    DeadLetter,
}

/// Where a queue sends what it gives up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// Published again to this exchange,
    pub exchange: String,
    /// with this key, or with the message's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
}

/// Where messages wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Unique among queues.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub kind: QueueKind,
    /// Where it sends what it gives up on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,
    /// How often a message is delivered at most: the backstop for consumers that crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_limit: Option<u16>,
    /// How long a message waits at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_ttl_ms: Option<u64>,
    /// The highest priority, 1 to 9; none if all messages are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<u8>,
    /// How many lanes per tenant keep order side by side on the Postgres bus, 1 to 64.
    #[serde(default = "shards_default")]
    pub shards: u16,
}

impl Queue {
    /// A queue whose messages are handled by consumers.
    pub fn work(name: impl Into<String>) -> Self {
        Self::of_kind(name.into(), QueueKind::Work)
    }

    /// A queue whose messages wait for triage.
    pub fn dead_letter_store(name: impl Into<String>) -> Self {
        Self::of_kind(name.into(), QueueKind::DeadLetter)
    }

    /// Sends what it gives up on to `exchange`, with the message's own key.
    pub fn dead_letter(mut self, exchange: impl Into<String>) -> Self {
        self.dead_letter = Some(DeadLetter { exchange: exchange.into(), routing_key: None });
        self
    }

    /// Sends what it gives up on to `exchange`, with this key.
    pub fn dead_letter_as(mut self, exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        let (exchange, routing_key) = (exchange.into(), Some(routing_key.into()));
        self.dead_letter = Some(DeadLetter { exchange, routing_key });
        self
    }

    /// Delivers a message at most so often.
    pub fn delivery_limit(mut self, limit: u16) -> Self {
        self.delivery_limit = Some(limit);
        self
    }

    /// Keeps a message at most so long.
    pub fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.message_ttl_ms = Some(ttl_ms);
        self
    }

    /// Hands out messages of higher priority first, up to `highest`.
    pub fn max_priority(mut self, highest: u8) -> Self {
        self.max_priority = Some(highest);
        self
    }

    /// Keeps order in so many lanes per tenant.
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
            shards: SHARDS_DEFAULT,
        }
    }
}

fn shards_default() -> u16 {
    SHARDS_DEFAULT
}

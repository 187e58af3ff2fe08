//! What an operator's action did with each dead letter.

use onceward_db::Row;
use serde::Serialize;
use std::fmt;
use uuid::Uuid;

/// Why an action was refused for a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriageRefusal {
    /// The letter does not exist.
    Missing,
    /// Its message was already requeued.
    Requeued,
    /// It is quarantined.
    Quarantined,
    /// Its queue is not declared.
    NoQueue,
    /// No consumer could read it.
    Unreadable,
    /// It does not hold its key.
    NotHolding,
}

impl TriageRefusal {
    fn parse(word: &str) -> Self {
        match word {
            "requeued" => Self::Requeued,
            "quarantined" => Self::Quarantined,
            "no_queue" => Self::NoQueue,
            "unreadable" => Self::Unreadable,
            "not_holding" => Self::NotHolding,
            _ => Self::Missing,
        }
    }
}

impl fmt::Display for TriageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is no such dead letter",
            Self::Requeued => "it has already been requeued",
            Self::Quarantined => "it is quarantined",
            Self::NoQueue => "its queue is not declared",
            Self::Unreadable => "its message cannot be read, so no consumer could handle it",
            Self::NotHolding => "it does not hold its key",
        })
    }
}

/// The outcome for a letter. For one that does not exist, unknown fields are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriageOutcome {
    /// The letter.
    pub id: i64,
    /// Why nothing was done, if so.
    pub refusal: Option<TriageRefusal>,
    /// Its queue.
    pub queue: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The event's id.
    pub event_id: Option<Uuid>,
    /// The event type, as in `order.placed.v1`.
    pub event_type: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// How many times its message had been requeued before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeues: Option<i32>,
    /// The time until its message is handled; `None` if it waits for earlier messages of its key to be settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<i64>,
    /// How many messages of its key wait behind it, or waited until it was released; `None` if it holds no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followers: Option<i64>,
}

impl TriageOutcome {
    pub(super) fn from_row(row: &Row) -> Self {
        let name: Option<&str> = row.get("event_type");
        let version: Option<i32> = row.get("version");
        Self {
            id: row.get("id"),
            refusal: row.get::<_, Option<&str>>("refusal").map(TriageRefusal::parse),
            queue: row.get("queue"),
            tenant: row.get("tenant_id"),
            event_id: row.get("event_id"),
            event_type: name.zip(version).map(|(name, version)| format!("{name}.v{version}")),
            ordering_key: row.get("ordering_key"),
            requeues: None,
            wait_ms: None,
            followers: None,
        }
    }

    pub(super) fn with_followers(row: &Row) -> Self {
        Self { followers: row.get("followers"), ..Self::from_row(row) }
    }

    /// Returns whether the letter was acted on, or would be.
    pub fn is_done(&self) -> bool {
        self.refusal.is_none()
    }
}

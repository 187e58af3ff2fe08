//! Acts on letters: who does it, what becomes of each, and taking letters out of the way.

use super::CHUNK;
use crate::store;
use onceward_db::{Db, DbError, Row, Scope};
use serde::Serialize;
use std::fmt;
use uuid::Uuid;

/// Who acts, and why. Both are kept for good.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Who.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Why nothing was done to a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is no such letter.
    Missing,
    /// Its message was put back already.
    Requeued,
    /// It is out of the way.
    Quarantined,
    /// Nobody declares its queue.
    NoQueue,
    /// No consumer could read it.
    Unreadable,
}

impl Refusal {
    fn of(word: &str) -> Self {
        match word {
            "requeued" => Self::Requeued,
            "quarantined" => Self::Quarantined,
            "no_queue" => Self::NoQueue,
            "unreadable" => Self::Unreadable,
            _ => Self::Missing,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is no such dead letter",
            Self::Requeued => "it was requeued already",
            Self::Quarantined => "it is quarantined",
            Self::NoQueue => "its queue is not declared",
            Self::Unreadable => "its message cannot be read, so nobody could handle it",
        })
    }
}

/// What becomes of a letter. What is not known of one that does not exist is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fate {
    /// The letter.
    pub id: i64,
    /// Nothing was done, and why.
    pub refusal: Option<Refusal>,
    /// Its queue.
    pub queue: Option<String>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// The event's id.
    pub event_id: Option<Uuid>,
    /// `order.placed.v1`.
    pub event_type: Option<String>,
    /// Its key.
    pub ordering_key: Option<String>,
    /// How often its message had been put back before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeues: Option<i32>,
    /// After this time its message is handled; `None`: when those before it in its key are through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<i64>,
}

impl Fate {
    pub(super) fn of(row: &Row) -> Self {
        let name: Option<&str> = row.get("event_type");
        let version: Option<i32> = row.get("version");
        Self {
            id: row.get("id"),
            refusal: row.get::<_, Option<&str>>("refusal").map(Refusal::of),
            queue: row.get("queue"),
            tenant: row.get("tenant_id"),
            event_id: row.get("event_id"),
            event_type: name.zip(version).map(|(name, version)| format!("{name}.v{version}")),
            ordering_key: row.get("ordering_key"),
            requeues: None,
            wait_ms: None,
        }
    }

    /// It was acted on, or would be.
    pub fn is_done(&self) -> bool {
        self.refusal.is_none()
    }
}

/// Takes letters out of the way under `tag`, each chunk in a commit of its own, after which `done` hears of it. A
/// rehearsal undoes every chunk.
pub async fn quarantine(
    db: &Db,
    ids: &[i64],
    tag: &str,
    operator: &Operator,
    rehearse: bool,
    mut done: impl FnMut(Vec<Fate>),
) -> Result<(), DbError> {
    for chunk in ids.chunks(CHUNK) {
        let tx = db.begin(Scope::platform("triage")).await?;
        let rows = tx.query(store::QUARANTINE, &[&chunk, &tag, &operator.name, &operator.why]).await?;
        let fates = rows.iter().map(Fate::of).collect();
        if rehearse {
            tx.rollback().await?
        } else {
            tx.commit().await?
        }
        done(fates);
    }
    Ok(())
}

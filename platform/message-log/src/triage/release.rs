//! Releases the keys that dead letters hold: their followers are handled without them.

use super::{CHUNK, Operator, TriageOutcome, audit};
use jiff::Timestamp;
use onceward_db::{Db, DbError, Scope};
use serde::Serialize;
use uuid::Uuid;

// In `migrations/0019_held_keys.sql`:
const RELEASE: &str = "SELECT * FROM onceward.release($1, $2, $3)";
const FOLLOWERS: &str = "SELECT onceward.waiting_behind($1)";
const WAITING_FOLLOWERS: &str = "SELECT event_id, event_type, written_at FROM onceward.waiting_followers($1, $2)";

/// Releases the keys of letters, one commit per chunk, and calls `done` after each. The letters stay dead letters. A
/// rehearsal rolls back every chunk. Waits for turns in the lanes of the letters, and fails if a worker stays in one of
/// them for ten seconds.
pub async fn release(
    db: &Db,
    ids: &[i64],
    operator: &Operator,
    rehearse: bool,
    mut done: impl FnMut(Vec<TriageOutcome>),
) -> Result<(), DbError> {
    for chunk in ids.chunks(CHUNK) {
        let mut tx = db.begin(Scope::platform("triage")).await?;
        let rows = tx.query(RELEASE, &[&chunk, &operator.name, &operator.why]).await?;
        let outcomes: Vec<TriageOutcome> = rows.iter().map(TriageOutcome::with_followers).collect();
        if rehearse {
            tx.rollback().await?
        } else {
            audit::record_outcomes(&mut tx, operator, "dead_letter_released", &outcomes)?;
            tx.commit().await?
        }
        done(outcomes);
    }
    Ok(())
}

/// A message that waits behind a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFollower {
    /// The event's id.
    pub event_id: Uuid,
    /// The event type, as in `order.placed.v1`.
    pub event_type: Option<String>,
    /// When it was published.
    pub written_at: Timestamp,
}

/// Returns the first `limit` messages that wait behind a letter, in their order, and their number. Returns `None` if
/// the letter holds no key.
pub async fn followers(db: &Db, letter: i64, limit: u32) -> Result<Option<(i64, Vec<WaitingFollower>)>, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let count = connection.query(FOLLOWERS, &[&letter]).await?;
    let Some(count) = count.first().and_then(|row| row.get::<_, Option<i64>>(0)) else {
        return Ok(None);
    };
    let rows = connection.query(WAITING_FOLLOWERS, &[&letter, &limit]).await?;
    let follower = |row: &onceward_db::Row| WaitingFollower {
        event_id: row.get("event_id"),
        event_type: row.get("event_type"),
        written_at: row.get("written_at"),
    };
    Ok(Some((count, rows.iter().map(follower).collect())))
}

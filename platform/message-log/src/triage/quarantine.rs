//! Quarantines dead letters. A letter that holds its key still holds it.

use super::{CHUNK, Operator, TriageOutcome, audit};
use onceward_db::{Db, DbError, Scope};

// In `migrations/0018_quarantine.sql`:
const QUARANTINE: &str = "SELECT * FROM onceward.quarantine($1, $2, $3, $4)";

/// Quarantines letters under `tag`, one commit per chunk, and calls `done` after each. A rehearsal rolls back every
/// chunk.
pub async fn quarantine(
    db: &Db,
    ids: &[i64],
    tag: &str,
    operator: &Operator,
    rehearse: bool,
    mut done: impl FnMut(Vec<TriageOutcome>),
) -> Result<(), DbError> {
    for chunk in ids.chunks(CHUNK) {
        let mut tx = db.begin(Scope::platform("triage")).await?;
        let rows = tx.query(QUARANTINE, &[&chunk, &tag, &operator.name, &operator.why]).await?;
        let outcomes: Vec<TriageOutcome> = rows.iter().map(TriageOutcome::with_followers).collect();
        if rehearse {
            tx.rollback().await?
        } else {
            audit::record_outcomes(&mut tx, operator, "dead_letter_quarantined", &outcomes)?;
            tx.commit().await?
        }
        done(outcomes);
    }
    Ok(())
}

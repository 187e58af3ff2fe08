//! Requeues dead letters.

use super::{CHUNK, Operator, TriageOutcome, audit, dead_letters::existing_in_order};
use onceward_db::{Db, DbError, Row, Scope};
use std::{collections::HashSet, time::Duration};

// In `migrations/0017_requeue.sql`:
const PLAN_REQUEUE: &str = "SELECT * FROM onceward.plan_requeue($1, $2, $3, $4, $5) WHERE id IS NOT NULL";
const REQUEUE: &str = "SELECT * FROM onceward.requeue($1, $2, $3, $4, $5, $6, $7)";

/// One letter every 20 ms: whatever had failed may have recovered and still be fragile.
const DEFAULT_STEP_US: i64 = 20_000;

/// How letters are requeued.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequeueOptions {
    /// The messages are not handled before this time has passed.
    pub delay: Duration,
    /// Spreads them evenly over this time; without it, 50 per second.
    pub spread: Option<Duration>,
    /// Whether to include quarantined letters.
    pub force: bool,
}

impl RequeueOptions {
    fn delay_ms(&self) -> i64 {
        i64::try_from(self.delay.as_millis()).unwrap_or(i64::MAX / 2)
    }

    async fn step_us(&self, db: &Db, ids: &[i64]) -> Result<i64, DbError> {
        let Some(spread) = self.spread else {
            return Ok(DEFAULT_STEP_US);
        };
        let planned = plan_at(db, ids, self, 0).await?;
        let first = planned.iter().filter(|outcome| outcome.wait_ms.is_some()).count().max(1);
        Ok(i64::try_from(spread.as_micros() / first as u128).unwrap_or(i64::MAX / 1_000_000))
    }
}

fn outcome(row: &Row) -> TriageOutcome {
    TriageOutcome { requeues: row.get("requeues"), wait_ms: row.get("wait_ms"), ..TriageOutcome::from_row(row) }
}

/// Returns what [`requeue`] would do now. Changes nothing and does not wait for any lock.
pub async fn plan(db: &Db, ids: &[i64], options: &RequeueOptions) -> Result<Vec<TriageOutcome>, DbError> {
    let ids = sorted(db, ids).await?;
    plan_at(db, &ids, options, options.step_us(db, &ids).await?).await
}

/// Sorts by order of publication, so that of two letters of a key the earlier one is never in a later chunk. Ids that
/// do not exist come last, to be refused.
async fn sorted(db: &Db, ids: &[i64]) -> Result<Vec<i64>, DbError> {
    let mut sorted = existing_in_order(db, ids).await?;
    let known: HashSet<i64> = sorted.iter().copied().collect();
    sorted.extend(ids.iter().filter(|id| !known.contains(id)));
    Ok(sorted)
}

async fn plan_at(db: &Db, ids: &[i64], options: &RequeueOptions, step_us: i64) -> Result<Vec<TriageOutcome>, DbError> {
    let connection = db.connection().await?;
    let rows = connection.query(PLAN_REQUEUE, &[&ids, &options.force, &0_i64, &options.delay_ms(), &step_us]).await?;
    Ok(rows.iter().map(outcome).collect())
}

/// Requeues letters, one commit per chunk, and calls `done` after each. Within a key they keep the order of
/// publication, whatever the order of `ids`. Waits for turns in the lanes of ordered letters, and fails if a worker
/// stays in one of them for ten seconds.
pub async fn requeue(
    db: &Db,
    ids: &[i64],
    options: &RequeueOptions,
    operator: &Operator,
    mut done: impl FnMut(Vec<TriageOutcome>),
) -> Result<(), DbError> {
    let ids = sorted(db, ids).await?;
    let step_us = options.step_us(db, &ids).await?;
    let mut first = 0_i64;
    for chunk in ids.chunks(CHUNK) {
        let mut tx = db.begin(Scope::platform("triage")).await?;
        let rows = tx
            .query(
                REQUEUE,
                &[&chunk, &options.force, &first, &options.delay_ms(), &step_us, &operator.name, &operator.why],
            )
            .await?;
        let outcomes: Vec<TriageOutcome> = rows.iter().map(outcome).collect();
        audit::record_outcomes(&mut tx, operator, "dead_letter_requeued", &outcomes)?;
        tx.commit().await?;
        first += i64::try_from(outcomes.iter().filter(|outcome| outcome.wait_ms.is_some()).count()).unwrap_or(0);
        done(outcomes);
    }
    Ok(())
}

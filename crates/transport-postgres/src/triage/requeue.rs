//! Putting letters back into their queues.

use super::{CHUNK, Fate, Operator, letters::of_these_in_order};
use crate::store;
use onceward_db::{Db, DbError, Row, Scope};
use std::{collections::HashSet, time::Duration};

/// One letter every 20 ms: what had failed may work again and still be fragile.
const STEP_US: i64 = 20_000;

/// How letters are put back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requeue {
    /// Not before this time has passed.
    pub delay: Duration,
    /// Spread evenly over this time; without it, 50 a second.
    pub spread: Option<Duration>,
    /// Also those that are quarantined.
    pub force: bool,
}

impl Requeue {
    fn delay_ms(&self) -> i64 {
        i64::try_from(self.delay.as_millis()).unwrap_or(i64::MAX / 2)
    }

    async fn step_us(&self, db: &Db, ids: &[i64]) -> Result<i64, DbError> {
        let Some(spread) = self.spread else {
            return Ok(STEP_US);
        };
        let planned = plan_at(db, ids, self, 0).await?;
        let first = planned.iter().filter(|fate| fate.wait_ms.is_some()).count().max(1);
        Ok(i64::try_from(spread.as_micros() / first as u128).unwrap_or(i64::MAX / 1_000_000))
    }
}

fn fate(row: &Row) -> Fate {
    Fate { requeues: row.get("requeues"), wait_ms: row.get("wait_ms"), ..Fate::of(row) }
}

/// What [`requeue`] would do now. Changes nothing and waits for nobody.
pub async fn plan(db: &Db, ids: &[i64], options: &Requeue) -> Result<Vec<Fate>, DbError> {
    let ids = sorted(db, ids).await?;
    plan_at(db, &ids, options, options.step_us(db, &ids).await?).await
}

/// In the order of publication, so that of two letters of a key the earlier one is never in a later chunk. What does not
/// exist comes last, for its refusal.
async fn sorted(db: &Db, ids: &[i64]) -> Result<Vec<i64>, DbError> {
    let mut sorted = of_these_in_order(db, ids).await?;
    let known: HashSet<i64> = sorted.iter().copied().collect();
    sorted.extend(ids.iter().filter(|id| !known.contains(id)));
    Ok(sorted)
}

async fn plan_at(db: &Db, ids: &[i64], options: &Requeue, step_us: i64) -> Result<Vec<Fate>, DbError> {
    let connection = db.connection().await?;
    let rows =
        connection.query(store::PLAN_REQUEUE, &[&ids, &options.force, &0_i64, &options.delay_ms(), &step_us]).await?;
    Ok(rows.iter().map(fate).collect())
}

/// Puts letters back, each chunk in a commit of its own, after which `done` hears of it. Within a key they go in the order
/// of publication, whatever the order of `ids`. Waits for turns in the lanes of ordered letters; a worker that stays in
/// one for ten seconds makes it an error.
pub async fn requeue(
    db: &Db,
    ids: &[i64],
    options: &Requeue,
    operator: &Operator,
    mut done: impl FnMut(Vec<Fate>),
) -> Result<(), DbError> {
    let ids = sorted(db, ids).await?;
    let step_us = options.step_us(db, &ids).await?;
    let mut first = 0_i64;
    for chunk in ids.chunks(CHUNK) {
        let tx = db.begin(Scope::platform("triage")).await?;
        let rows = tx
            .query(
                store::REQUEUE,
                &[&chunk, &options.force, &first, &options.delay_ms(), &step_us, &operator.name, &operator.why],
            )
            .await?;
        tx.commit().await?;
        let fates: Vec<Fate> = rows.iter().map(fate).collect();
        first += i64::try_from(fates.iter().filter(|fate| fate.wait_ms.is_some()).count()).unwrap_or(0);
        done(fates);
    }
    Ok(())
}

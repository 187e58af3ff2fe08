//! Counting and clearing away, for all tenants.

use onceward::{Db, DbError, Tx};

const FIGURES: &str = "SELECT what, state, count FROM webhooks.figures($1)";
const SWEEP: &str = "SELECT webhooks.sweep($1::int * interval '1 day', $2)";
/// More than this many are not counted.
const COUNTED_AT_MOST: i32 = 10_000;

/// (`deliveries` or `endpoints`, their state, how many).
pub(crate) async fn figures(db: &Db) -> Result<Vec<(String, String, i64)>, DbError> {
    let rows = db.connection().await?.query(FIGURES, &[&COUNTED_AT_MOST]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// Clears away up to `most` rows of each kind that are older; gives how many there were.
pub(crate) async fn sweep(tx: &Tx, keep_days: i32, most: i32) -> Result<i32, DbError> {
    Ok(tx.query_one(SWEEP, &[&keep_days, &most]).await?.get(0))
}

//! Counts rows and deletes old ones, for all tenants.

use onceward::{Db, DbError, Tx};

const COUNT_BY_STATE: &str = "SELECT what, state, count FROM webhooks.figures($1)";
const DELETE_OLD_ROWS: &str = "SELECT webhooks.sweep($1::int * interval '1 day', $2)";
/// Counting stops at this number.
const MAX_COUNT: i32 = 10_000;

/// Returns (`deliveries` or `endpoints`, state, count) for each state.
pub(crate) async fn count_by_state(db: &Db) -> Result<Vec<(String, String, i64)>, DbError> {
    let rows = db.connection().await?.query(COUNT_BY_STATE, &[&MAX_COUNT]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// Deletes up to `limit` rows of each kind that are older than `keep_days`. Returns how many it deleted.
pub(crate) async fn delete_old_rows(tx: &Tx, keep_days: i32, limit: i32) -> Result<i32, DbError> {
    Ok(tx.query_one(DELETE_OLD_ROWS, &[&keep_days, &limit]).await?.get(0))
}

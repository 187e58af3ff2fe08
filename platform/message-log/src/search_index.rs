//! Keeps the log searchable: time marks, and indexes on partitions that are no longer written.

use crate::store;
use onceward_db::{Db, DbError, Scope};

/// The minimum interval between marks.
const MARK_INTERVAL_S: i64 = 30;
/// A partition that closed this long ago has no writers left.
pub const SETTLED_S: i64 = 600;
/// How long building the indexes of one partition may take.
const BUILD_TIMEOUT: &str = "SET LOCAL statement_timeout = '1h'";

/// Records the log's current position, and indexes at most one partition that closed `settled_s` ago or earlier.
/// Returns the number of that partition. Safe to run from many instances: they take turns.
pub async fn maintain(db: &Db, settled_s: i64) -> Result<Option<i32>, DbError> {
    let connection = db.connection().await?;
    connection.query(store::MARK_LOG, &[&MARK_INTERVAL_S]).await?;
    let epoch: Option<i32> = connection.query(store::EPOCH_TO_INDEX, &[&settled_s]).await?[0].get(0);
    drop(connection);
    let Some(epoch) = epoch else { return Ok(None) };
    let mut tx = db.begin(Scope::platform("onceward")).await?;
    tx.queue_statements(BUILD_TIMEOUT);
    let built: bool = tx.query_one(store::INDEX_EPOCH, &[&epoch]).await?.get(0);
    tx.commit().await?;
    Ok(built.then_some(epoch))
}

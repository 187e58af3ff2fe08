//! Keeps the log searchable: time marks, and indexes on partitions that are no longer written.

use onceward_db::{Db, DbError, Scope};

// In `migrations/0014_retention.sql`:
const MARK_LOG: &str = "SELECT onceward.mark_log($1::bigint * interval '1 second')";
const EPOCH_TO_INDEX: &str = "SELECT onceward.epoch_to_index($1::bigint * interval '1 second')";
const INDEX_EPOCH: &str = "SELECT onceward.index_epoch($1)";

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
    connection.query(MARK_LOG, &[&MARK_INTERVAL_S]).await?;
    let epoch: Option<i32> = connection.query(EPOCH_TO_INDEX, &[&settled_s]).await?[0].get(0);
    drop(connection);
    let Some(epoch) = epoch else { return Ok(None) };
    let mut tx = db.begin(Scope::platform("onceward")).await?;
    tx.queue_statements(BUILD_TIMEOUT);
    let built: bool = tx.query_one(INDEX_EPOCH, &[&epoch]).await?.get(0);
    tx.commit().await?;
    Ok(built.then_some(epoch))
}

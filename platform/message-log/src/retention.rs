//! Removes history, whole partitions at a time.

use onceward_db::{Connection, Db, DbError};
use postgres_types::Json;
use std::collections::BTreeMap;

// In `migrations/0014_retention.sql`:
const OPEN_EPOCH: &str = "SELECT onceward.open_epoch($1::bigint * interval '1 second')";
const DROP_EPOCH: &str = "SELECT onceward.drop_epoch($1::bigint * interval '1 second')";
const FORGET: &str = "SELECT onceward.forget($1::bigint * interval '1 second', $2)";
const FORGET_LETTERS: &str = "SELECT onceward.forget_letters($1::bigint * interval '1 second', $2)";
const FORGET_ATTEMPTS: &str = "SELECT onceward.forget_attempts($1)";
const SET_KEY_DAYS: &str = "SELECT onceward.set_key_days($1)";

/// Retention periods. [`Default`] returns the documented values.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long a partition accepts new messages.
    pub epoch_s: i64,
    /// How long a closed partition is kept, and with it the memory of its idempotency keys, except those of
    /// [`set_key_days`].
    pub keep_s: i64,
    /// How long inbox rows are kept.
    pub inbox_s: i64,
    /// How long dead letters are kept after they were requeued. All others are kept forever.
    pub letters_s: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { epoch_s: 24 * 3600, keep_s: 7 * 24 * 3600, inbox_s: 14 * 24 * 3600, letters_s: 90 * 24 * 3600 }
    }
}

/// The result of one sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Whether a new partition was opened.
    pub opened: bool,
    /// Partitions dropped.
    pub dropped: u32,
    /// Keys and inbox rows deleted.
    pub keys: i64,
    /// Dead letters deleted.
    pub letters: i64,
    /// Failed attempts deleted.
    pub attempts: i64,
}

const BATCH_ROWS: i32 = 10_000;
/// A sweep is bounded; the next one continues where it stopped.
const BATCHES_AT_MOST: usize = 100;

/// Opens the next partition, drops old ones and deletes expired rows, as due. Safe to run from many instances: they
/// take turns.
pub async fn sweep(db: &Db, retention: Retention) -> Result<SweepResult, DbError> {
    let connection = db.connection().await?;
    let mut swept = SweepResult {
        opened: connection.query(OPEN_EPOCH, &[&retention.epoch_s]).await?[0].get(0),
        ..SweepResult::default()
    };
    for _ in 0..BATCHES_AT_MOST {
        let dropped: Option<i32> = connection.query(DROP_EPOCH, &[&retention.keep_s]).await?[0].get(0);
        let Some(epoch) = dropped else { break };
        tracing::info!(epoch, "dropped a partition of the message log");
        swept.dropped += 1;
    }
    swept.keys = delete_expired(&connection, FORGET, retention.inbox_s).await?;
    swept.letters = delete_expired(&connection, FORGET_LETTERS, retention.letters_s).await?;
    for _ in 0..BATCHES_AT_MOST {
        let deleted: i64 = connection.query(FORGET_ATTEMPTS, &[&BATCH_ROWS]).await?[0].get(0);
        swept.attempts += deleted;
        if deleted < i64::from(BATCH_ROWS) {
            break;
        }
    }
    Ok(swept)
}

/// Sets how many days the idempotency keys of these event types are remembered; those of all others are remembered as
/// long as their partition of the log is kept. Returns whether anything changed.
pub async fn set_key_days(db: &Db, days: &BTreeMap<String, u32>) -> Result<bool, DbError> {
    let connection = db.connection().await?;
    Ok(connection.query(SET_KEY_DAYS, &[&Json(days)]).await?[0].get(0))
}

/// Deletes rows older than `keep_s` in batches and returns their number.
async fn delete_expired(connection: &Connection, statement: &'static str, keep_s: i64) -> Result<i64, DbError> {
    let mut total = 0;
    for _ in 0..BATCHES_AT_MOST {
        let deleted: i64 = connection.query(statement, &[&keep_s, &BATCH_ROWS]).await?[0].get(0);
        total += deleted;
        if deleted == 0 {
            break;
        }
    }
    Ok(total)
}

//! What is done leaves: whole partitions at a time.

use crate::store;
use onceward_db::{Connection, Db, DbError};

/// How long what is kept; [`Default`] gives the documented values.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// A partition takes new messages for this long.
    pub epoch_s: i64,
    /// A closed partition is kept for this long, and with it the memory of its idempotency keys.
    pub keep_s: i64,
    /// Inbox rows are kept for this long.
    pub inbox_s: i64,
    /// Dead letters are kept for this long after they were requeued; every other one stays.
    pub letters_s: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { epoch_s: 24 * 3600, keep_s: 7 * 24 * 3600, inbox_s: 14 * 24 * 3600, letters_s: 90 * 24 * 3600 }
    }
}

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// A new partition was opened.
    pub opened: bool,
    /// Partitions dropped.
    pub dropped: u32,
    /// Keys and inbox rows forgotten.
    pub forgotten: i64,
    /// Dead letters forgotten.
    pub letters: i64,
}

const FORGET_AT_ONCE: i32 = 10_000;
/// A sweep is bounded; what it leaves, the next one takes.
const ROUNDS: usize = 100;

/// Opens, drops and forgets what is due. Safe to run from many instances: they take turns.
pub async fn sweep(db: &Db, retention: Retention) -> Result<Swept, DbError> {
    let connection = db.connection().await?;
    let mut swept = Swept {
        opened: connection.query(store::OPEN_EPOCH, &[&retention.epoch_s]).await?[0].get(0),
        ..Swept::default()
    };
    for _ in 0..ROUNDS {
        let dropped: Option<i32> = connection.query(store::DROP_EPOCH, &[&retention.keep_s]).await?[0].get(0);
        let Some(epoch) = dropped else { break };
        tracing::info!(epoch, "dropped a partition of the message log");
        swept.dropped += 1;
    }
    swept.forgotten = forget(&connection, store::FORGET, retention.inbox_s).await?;
    swept.letters = forget(&connection, store::FORGET_LETTERS, retention.letters_s).await?;
    Ok(swept)
}

/// Forgets what is older than `keep_s`, some of it at a time; gives how much that was.
async fn forget(connection: &Connection, statement: &'static str, keep_s: i64) -> Result<i64, DbError> {
    let mut all = 0;
    for _ in 0..ROUNDS {
        let forgotten: i64 = connection.query(statement, &[&keep_s, &FORGET_AT_ONCE]).await?[0].get(0);
        all += forgotten;
        if forgotten == 0 {
            break;
        }
    }
    Ok(all)
}

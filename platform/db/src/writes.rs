//! Checks that the server still accepts writes. Reads succeed on a full disk, so a check that only reads would not
//! notice.

use crate::{Db, DbError, Scope};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long after a write failed for lack of space the check tries to write, instead of assuming success.
const SUSPECT_FOR: Duration = Duration::from_secs(60);

/// When a write of this process last failed because of the server's state. A process normally has one database; if it
/// has several, the check merely tries to write to the others as well.
static LAST_FAILURE: Mutex<Option<Instant>> = Mutex::new(None);

/// Reads a session setting, which costs nothing.
const READ_ONLY: &str = "SELECT current_setting('transaction_read_only') = 'on'";
/// Creates a new file of one page: a full disk has no space for it, however much free space tables have inside.
const ALLOCATE_SPACE: &str = "CREATE TEMPORARY TABLE onceward_write_check ON COMMIT DROP AS SELECT 1 AS one";

pub(crate) fn record_failure() {
    *LAST_FAILURE.lock() = Some(Instant::now());
}

fn is_suspect() -> bool {
    LAST_FAILURE.lock().is_some_and(|at| at.elapsed() < SUSPECT_FOR)
}

/// Fails with [`DbError::Unavailable`] if the server is read-only, and with [`DbError::Impaired`] if it has no space
/// for writes. Space is checked only within a minute after a write of this process failed, so that the check costs a
/// healthy server nothing.
pub async fn check(db: &Db) -> Result<(), DbError> {
    let tx = db.begin(Scope::platform("health")).await?;
    if tx.query_one(READ_ONLY, &[]).await?.get(0) {
        return Err(DbError::Unavailable("the server is read-only, so nothing can be written".into()));
    }
    if !is_suspect() {
        return Ok(());
    }
    match tx.execute(ALLOCATE_SPACE, &[]).await {
        Err(error) if error.is_unavailable() => Err(error),
        // A role without the privilege to create temporary tables cannot try.
        _ => tx.rollback().await,
    }
}

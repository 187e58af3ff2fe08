//! Waits for the rollbacks of dropped transactions.
//!
//! A dropped transaction is rolled back by a separate task, because `drop` cannot wait. Code that responds "nothing
//! happened" waits here first, because the caller's next request could otherwise still see what is being rolled back.

use parking_lot::Mutex;
use std::{future::Future, time::Duration};
use tokio::task::JoinHandle;

/// A server that does not respond within this time has lost the session or will; callers do not wait longer for it.
const WAIT_MAX: Duration = Duration::from_secs(2);

tokio::task_local! {
    static PENDING: Mutex<Vec<JoinHandle<()>>>;
}

/// Runs `work` and returns its result once every transaction dropped in it has been rolled back.
pub async fn await_rollbacks<F: Future>(work: F) -> F::Output {
    let run = async {
        let output = work.await;
        let pending = PENDING.with(|tasks| std::mem::take(&mut *tasks.lock()));
        for task in pending {
            let _ = tokio::time::timeout(WAIT_MAX, task).await;
        }
        output
    };
    PENDING.scope(Mutex::default(), run).await
}

/// Registers a rollback task for the enclosing [`await_rollbacks`] to wait for.
pub(crate) fn add(task: JoinHandle<()>) {
    let _ = PENDING.try_with(|tasks| tasks.lock().push(task));
}

//! Waiting for what dropped transactions undo.
//!
//! A transaction that is dropped is rolled back by a task of its own, because dropping cannot wait. Whoever answers
//! "nothing happened" waits here first, or the caller's next request could still meet what is being undone.

use std::{future::Future, sync::Mutex, time::Duration};
use tokio::task::JoinHandle;

/// A server that does not answer in this time has lost the session or will; nobody is kept waiting for it.
const PATIENCE: Duration = Duration::from_secs(2);

tokio::task_local! {
    static UNDER_WAY: Mutex<Vec<JoinHandle<()>>>;
}

/// Runs `work`; gives its result once every transaction that was dropped in it is undone.
pub async fn settled<F: Future>(work: F) -> F::Output {
    let run = async {
        let output = work.await;
        let under_way = UNDER_WAY.with(|tasks| std::mem::take(&mut *tasks.lock().expect("no panic while held")));
        for task in under_way {
            let _ = tokio::time::timeout(PATIENCE, task).await;
        }
        output
    };
    UNDER_WAY.scope(Mutex::default(), run).await
}

/// Notes a rollback for whoever waits for it.
pub(crate) fn note(task: JoinHandle<()>) {
    let _ = UNDER_WAY.try_with(|tasks| tasks.lock().expect("no panic while held").push(task));
}

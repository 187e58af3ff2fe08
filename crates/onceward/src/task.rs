//! Work of a service that goes on by itself, beside its consumers.
//!
//! A task runs in every process of the role `worker`, so several may run at once: what it does must be claimed in the
//! database. One that fails or panics is begun again after a pause.

use futures_util::{FutureExt, future::BoxFuture};
use onceward_db::Db;
use std::{
    error::Error,
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// One that ran for this long was well, so its next pause is short again.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// Why a task ended before it was told to.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// What a task gets.
#[derive(Clone)]
pub struct TaskContext {
    /// A database handle whose transactions can publish.
    pub db: Db,
    /// Fires when the process is to stop: take no more, and finish or hand back what is in hand.
    pub stop: CancellationToken,
    /// How long that may take.
    pub grace: Duration,
}

type Run = Arc<dyn Fn(TaskContext) -> BoxFuture<'static, Result<(), TaskError>> + Send + Sync>;

/// A task, as declared.
#[derive(Clone)]
pub(crate) struct Task {
    name: &'static str,
    run: Run,
}

impl Task {
    pub(crate) fn new<F, Fut>(name: &'static str, run: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        Self { name, run: Arc::new(move |context| run(context).boxed()) }
    }

    /// Runs until it is told to stop, or says by itself that it is done.
    pub(crate) async fn supervised(self, context: TaskContext) {
        let (name, mut pause) = (self.name, PAUSE_MIN);
        while !context.stop.is_cancelled() {
            let begun = Instant::now();
            match AssertUnwindSafe((self.run)(context.clone())).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::warn!(task = name, error, "a task failed; it is begun again"),
                Err(_) => tracing::error!(task = name, "a task panicked; it is begun again"),
            }
            if begun.elapsed() > WELL_AFTER {
                pause = PAUSE_MIN;
            }
            tokio::select! { () = tokio::time::sleep(pause) => {}, () = context.stop.cancelled() => {} }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::DbConfig;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn context() -> TaskContext {
        let db = Db::connect(DbConfig::new("postgres://nobody@127.0.0.1:1/none")).expect("no connection is made yet");
        TaskContext { db, stop: CancellationToken::new(), grace: Duration::from_secs(1) }
    }

    #[tokio::test]
    async fn a_task_that_fails_or_panics_is_begun_again_until_it_is_done() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let task = Task::new("restless", move |_| {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match run {
                    0 => Err("not yet".into()),
                    1 => panic!("on purpose"),
                    _ => Ok(()),
                }
            }
        });
        task.supervised(context()).await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_task_that_keeps_failing_ends_when_it_is_told_to_stop() {
        let context = context();
        let stop = context.stop.clone();
        let runs = AtomicU32::new(0);
        let task = Task::new("hopeless", move |_| {
            if runs.fetch_add(1, Ordering::Relaxed) == 1 {
                stop.cancel();
            }
            async { Err("never".into()) }
        });
        tokio::time::timeout(Duration::from_secs(60), task.supervised(context)).await.expect("it ends");
    }
}

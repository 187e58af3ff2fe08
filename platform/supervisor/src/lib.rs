//! Keeps long-lived tasks running: a task that panics or fails is restarted after a pause, counted, and reported as
//! failing.
//!
//! A process has one [`Supervisor`]; everything that is meant to run until the process stops runs under it.

mod failures;

pub use failures::FailingTask;
use failures::Failures;
use futures_util::FutureExt;
use std::{
    error::Error,
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Counts restarts of tasks, by task.
pub const TASK_RESTARTS: &str = "onceward_task_restarts_total";

/// The pause before the first restart; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest pause before a restart.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A task that ran for this long has recovered: its next pause is short again, and it is no longer reported.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// The reason why a task ended before it was asked to.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// Restarts tasks and records their failures. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Supervisor {
    failures: Arc<Failures>,
}

/// How to treat a task that returns `Ok`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The work is done.
    Done,
    /// The task must not end before the process stops.
    Unexpected,
}

impl Supervisor {
    /// Creates a supervisor without any recorded failures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` until `stop`, and restarts it whenever it panics, fails or returns before that.
    pub async fn keep_running<F, Fut>(&self, name: &str, stop: &CancellationToken, work: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), TaskError>>,
    {
        self.supervise(name, stop, End::Unexpected, work).await;
    }

    /// Runs `work` until it returns `Ok` or `stop` fires, and restarts it whenever it panics or fails.
    pub async fn run_to_end<F, Fut>(&self, name: &str, stop: &CancellationToken, work: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), TaskError>>,
    {
        self.supervise(name, stop, End::Done, work).await;
    }

    async fn supervise<F, Fut>(&self, name: &str, stop: &CancellationToken, end: End, mut work: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(), TaskError>>,
    {
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            let started = Instant::now();
            // Creating the future is part of the work: it may panic, too.
            let ended = AssertUnwindSafe(async { work().await }).catch_unwind().await;
            if stop.is_cancelled() || matches!(ended, Ok(Ok(())) if end == End::Done) {
                return;
            }
            self.failed(name, &reason(ended));
            if started.elapsed() > RECOVERED_AFTER {
                pause = PAUSE_MIN;
            }
            tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => return }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Records a failure of the task `name` whose recovery is handled elsewhere.
    pub fn failed(&self, name: &str, error: &str) {
        tracing::error!(task = name, error, "task ended unexpectedly; restarting");
        metrics::counter!(TASK_RESTARTS, "task" => name.to_owned()).increment(1);
        self.failures.record(name, error);
    }

    /// Returns the tasks that failed within the last minute, by name.
    pub fn failing(&self) -> Vec<FailingTask> {
        self.failures.within(RECOVERED_AFTER)
    }

    /// Fails with the names of the tasks that failed within the last minute, for readiness.
    pub fn check(&self) -> Result<(), String> {
        let failing = self.failing();
        if failing.is_empty() {
            return Ok(());
        }
        let named: Vec<String> = failing.iter().map(ToString::to_string).collect();
        Err(format!("restarted tasks: {}; see the log for the reasons", named.join("; ")))
    }
}

/// A panic's message may quote the data that the task worked on, so it appears only in the panic hook's output.
fn reason(ended: Result<Result<(), TaskError>, Box<dyn std::any::Any + Send>>) -> String {
    match ended {
        Ok(Ok(())) => "it returned before the process was asked to stop".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_task_that_fails_or_panics_is_restarted_until_it_succeeds_and_is_reported() {
        let (supervisor, runs) = (Supervisor::new(), AtomicU32::new(0));
        let work = || {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                match run {
                    0 => Err("not yet".into()),
                    1 => panic!("on purpose"),
                    _ => Ok(()),
                }
            }
        };
        let never = CancellationToken::new();
        let kept = supervisor.run_to_end("unsteady", &never, work);
        tokio::time::timeout(PATIENCE, kept).await.expect("it is done");
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        let failing = supervisor.failing().remove(0);
        assert_eq!((failing.name.as_str(), failing.restarts, failing.error.as_str()), ("unsteady", 2, "it panicked"));
        assert!(supervisor.check().is_err_and(|error| error.contains("unsteady")));
    }

    #[tokio::test]
    async fn a_task_that_must_run_is_restarted_when_it_returns() {
        let (supervisor, stop, runs) = (Supervisor::new(), CancellationToken::new(), AtomicU32::new(0));
        let work = || {
            if runs.fetch_add(1, Ordering::Relaxed) == 2 {
                stop.cancel();
            }
            async { Ok(()) }
        };
        tokio::time::timeout(PATIENCE, supervisor.keep_running("short", &stop, work)).await.expect("it stops");
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_task_that_panics_before_its_first_await_is_restarted_too() {
        let (supervisor, stop, runs) = (Supervisor::new(), CancellationToken::new(), AtomicU32::new(0));
        let work = || {
            assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
            stop.cancel();
            async { Ok(()) }
        };
        tokio::time::timeout(PATIENCE, supervisor.keep_running("eager", &stop, work)).await.expect("it stops");
        assert_eq!(supervisor.failing()[0].restarts, 1);
    }

    #[tokio::test]
    async fn a_task_that_keeps_failing_ends_when_it_is_asked_to_stop() {
        let (supervisor, stop, runs) = (Supervisor::new(), CancellationToken::new(), AtomicU32::new(0));
        let work = || {
            if runs.fetch_add(1, Ordering::Relaxed) == 1 {
                stop.cancel();
            }
            async { Err("never".into()) }
        };
        tokio::time::timeout(PATIENCE, supervisor.keep_running("hopeless", &stop, work)).await.expect("it ends");
    }

    #[test]
    fn a_process_without_failures_is_ready() {
        assert_eq!(Supervisor::new().check(), Ok(()));
    }
}

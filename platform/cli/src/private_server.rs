//! The private PostgreSQL of a running `onceward up`: monitored, and restarted when it exits unexpectedly.

use onceward_local_postgres::{Cluster, LocalPostgresError, ShutdownMode};
use onceward_supervisor::Supervisor;
use parking_lot::Mutex;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The name under which failures of the thread are reported.
const TASK: &str = "postgresql";
/// How often the server is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The longest pause after a panic. Nothing interrupts it, so it must be well below [`STOP_TIMEOUT`].
const PANIC_BACKOFF_MAX: Duration = Duration::from_secs(10);
/// After this uptime the next restart is immediate again.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(60);
/// How long stopping may take: longer than a fast shutdown may.
const STOP_TIMEOUT: Duration = Duration::from_secs(70);

/// A monitored cluster, in its own thread because starting and stopping a server blocks.
pub struct PrivateServer {
    data_dir: PathBuf,
    problem: Arc<Mutex<Option<String>>>,
    failures: Arc<OnceLock<Supervisor>>,
    stop: Sender<()>,
    thread: JoinHandle<Result<(), LocalPostgresError>>,
}

impl PrivateServer {
    /// Starts to monitor a running cluster.
    pub fn monitor(cluster: Cluster) -> Self {
        let (data_dir, problem) = (cluster.data_dir().to_path_buf(), Arc::default());
        let failures = Arc::<OnceLock<Supervisor>>::default();
        let (stop, stop_requests) = channel();
        let monitor =
            ServerMonitor { cluster, stop_requests, problem: Arc::clone(&problem), backoff: RestartBackoff::default() };
        let reported = Arc::clone(&failures);
        let thread = std::thread::spawn(move || monitor.run(&reported));
        Self { data_dir, problem, failures, stop, thread }
    }

    /// The folder that holds the data.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Returns a readiness check that fails with the reason while the server is not running.
    pub fn check(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let problem = Arc::clone(&self.problem);
        move || problem.lock().clone().map_or(Ok(()), Err)
    }

    /// Reports to `supervisor` from now on when the monitor itself panics and is restarted.
    pub fn report_to(&self, supervisor: &Supervisor) {
        // The first one is kept: a process has only one.
        let _ = self.failures.set(supervisor.clone());
    }

    /// Stops the monitor and the server. A server whose restart takes longer than the timeout is left to
    /// its guardian, which stops it after this process has ended.
    pub async fn stop(self) -> anyhow::Result<()> {
        // An error means that the thread has ended, which joining it reveals.
        let _ = self.stop.send(());
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        let ended = tokio::time::timeout(STOP_TIMEOUT, joined)
            .await
            .map_err(|_| anyhow::anyhow!("PostgreSQL did not stop within {} s", STOP_TIMEOUT.as_secs()))??;
        ended.map_err(|_| anyhow::anyhow!("the monitor of PostgreSQL panicked"))??;
        Ok(())
    }
}

struct ServerMonitor {
    cluster: Cluster,
    stop_requests: Receiver<()>,
    problem: Arc<Mutex<Option<String>>>,
    backoff: RestartBackoff,
}

impl ServerMonitor {
    fn run(mut self, failures: &OnceLock<Supervisor>) -> Result<(), LocalPostgresError> {
        restart_on_panic(failures, || self.watch());
        self.cluster.stop(ShutdownMode::Fast)
    }

    /// Restarts the server whenever it ends, until asked to stop.
    fn watch(&mut self) {
        let mut since = Instant::now();
        while !self.stop_requested(CHECK_INTERVAL) {
            let Some(status) = self.cluster.ended() else {
                continue;
            };
            let pause = self.backoff.next(since.elapsed());
            tracing::error!(
                status,
                log = %self.cluster.log_path().display(),
                restart_in_ms = pause.as_millis() as u64,
                "the private PostgreSQL exited unexpectedly; restarting it"
            );
            self.set_problem(Some(format!(
                "the private PostgreSQL exited unexpectedly ({status}) and is being restarted"
            )));
            if !self.restart(pause) {
                break;
            }
            since = Instant::now();
        }
    }

    /// Retries until the server is running; returns `false` if asked to stop meanwhile.
    fn restart(&mut self, mut pause: Duration) -> bool {
        let began = Instant::now();
        while !self.stop_requested(pause) {
            match self.cluster.restart() {
                Ok(()) => {
                    let took_ms = began.elapsed().as_millis() as u64;
                    tracing::info!(took_ms, "the private PostgreSQL is running again");
                    self.set_problem(None);
                    return true;
                }
                Err(error) => {
                    pause = self.backoff.next(Duration::ZERO);
                    let (error, in_ms) = (error.to_string(), pause.as_millis() as u64);
                    tracing::error!(error, restart_in_ms = in_ms, "restarting the private PostgreSQL failed; retrying");
                    let cause = cause(&error);
                    self.set_problem(Some(format!(
                        "the private PostgreSQL exited and cannot be restarted: {cause}; the next attempt is in {in_ms} ms"
                    )));
                }
            }
        }
        false
    }

    fn stop_requested(&self, within: Duration) -> bool {
        !matches!(self.stop_requests.recv_timeout(within), Err(RecvTimeoutError::Timeout))
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock() = problem;
    }
}

/// Runs `watch` until it returns, and again after a delay whenever it panics, so that the server is always monitored.
fn restart_on_panic(failures: &OnceLock<Supervisor>, mut watch: impl FnMut()) {
    let mut pause = BACKOFF_MIN;
    while catch_unwind(AssertUnwindSafe(&mut watch)).is_err() {
        match failures.get() {
            Some(supervisor) => supervisor.failed(TASK, "the monitor of the private PostgreSQL panicked"),
            None => tracing::error!(task = TASK, "the monitor of the private PostgreSQL panicked; restarting it"),
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PANIC_BACKOFF_MAX);
    }
}

/// Returns the relevant line of an error that contains the end of a log.
fn cause(error: &str) -> &str {
    let fatal = |line: &&str| line.contains("FATAL:") || line.contains("PANIC:");
    error.lines().rev().find(fatal).or(error.lines().next()).unwrap_or_default().trim()
}

/// The delay before each restart: none at first, then exponential up to a limit.
#[derive(Default)]
struct RestartBackoff(Duration);

impl RestartBackoff {
    fn next(&mut self, ran_for: Duration) -> Duration {
        if ran_for > BACKOFF_RESET_AFTER {
            self.0 = Duration::ZERO;
        }
        let pause = self.0;
        self.0 = (pause * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_back_off_up_to_a_limit_and_reset_after_a_long_run() {
        let mut backoff = RestartBackoff::default();
        let mut millis = || backoff.next(Duration::from_secs(1)).as_millis();
        assert_eq!([millis(), millis(), millis(), millis()], [0, 200, 400, 800]);
        let last = (0..20).map(|_| millis()).last();
        assert_eq!(last, Some(BACKOFF_MAX.as_millis()));
        assert_eq!(backoff.next(BACKOFF_RESET_AFTER * 2), Duration::ZERO);
    }

    #[test]
    fn a_monitor_that_panics_is_reported_and_restarted_until_it_returns() {
        let (failures, mut runs) = (OnceLock::new(), 0);
        let supervisor = Supervisor::new();
        failures.set(supervisor.clone()).ok();
        restart_on_panic(&failures, || {
            runs += 1;
            assert!(runs > 1, "on purpose");
        });
        assert_eq!((runs, supervisor.failing()[0].name.as_str()), (2, TASK));
    }

    #[test]
    fn the_cause_is_the_last_fatal_line_of_the_log() {
        let error = "PostgreSQL ended while starting. Its log ends with:\nLOG: a\nFATAL:  no room\nLOG: b";
        assert_eq!(cause(error), "FATAL:  no room");
        assert_eq!(cause("could not open x\nmore"), "could not open x");
    }
}

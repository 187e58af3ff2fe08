//! The signals that ask a process to stop.

use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `draining` at the first SIGTERM or Ctrl-C, and `stop` after the time `drain`. A second signal ends the
/// process at once.
pub(crate) fn stop_on_signal(draining: CancellationToken, drain: Duration, stop: CancellationToken) {
    // Opened here and not in the task: a process that cannot receive the signals must not start.
    let mut signals = Signals::new();
    tokio::spawn(async move {
        signals.next().await;
        draining.cancel();
        tokio::spawn(async move {
            tokio::time::sleep(drain).await;
            stop.cancel();
        });
        let code = signals.next().await;
        tracing::warn!("received a second signal to stop: ending at once; unfinished work will be repeated");
        std::process::exit(code);
    });
}

/// The signals that ask a process to stop. Kept open, so that a second one that follows at once is not missed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Self {
        let open = |kind| signal(kind).expect("signals can be handled");
        Self { interrupt: open(SignalKind::interrupt()), terminate: open(SignalKind::terminate()) }
    }

    /// Waits for the next signal; returns the exit code of a process that is ended by it.
    async fn next(&mut self) -> i32 {
        tokio::select! { _ = self.interrupt.recv() => 128 + 2, _ = self.terminate.recv() => 128 + 15 }
    }
}

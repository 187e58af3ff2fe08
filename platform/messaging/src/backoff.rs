//! A pause after errors, longer each time.

use onceward_message_log::BusError;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// How long a task pauses before it tries again.
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Makes the next pause short again, after a success.
    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }

    /// Logs the error and pauses. Returns early when `stop` fires.
    pub(crate) async fn pause_after(&mut self, consumer: &str, error: &BusError, stop: &CancellationToken) {
        tracing::warn!(consumer, %error, "reading or settling messages failed; retrying");
        let pause = self.0.mul_f64(rand::random_range(0.5..1.0));
        self.0 = (self.0 * 2).min(LONGEST);
        tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => {} }
    }
}

//! The latencies of requests over a period.

use std::{fmt, time::Duration};

/// Latencies, sorted.
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the 95th percentile.
    pub fn p95(&self) -> Duration {
        self.percentile(0.95).copied().unwrap_or_default()
    }

    fn percentile(&self, share: f64) -> Option<&Duration> {
        self.0.get(((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1)))
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0);
        write!(
            f,
            "p50 {:.1} ms, p99 {:.1} ms ({} requests)",
            ms(self.percentile(0.5)),
            ms(self.percentile(0.99)),
            self.0.len()
        )
    }
}

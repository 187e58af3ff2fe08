//! When a breaker opens, for how long, and what a call's result means to it.

use serde::{Deserialize, Serialize};

/// The least time after which a caller that was rejected during a probe asks again.
const PROBE_WAIT_MIN_MS: u64 = 1_000;

/// When a breaker opens, and how it closes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerSettings {
    /// The breaker opens after this many failures within the window …
    pub failures: u32,
    /// … if they are also at least this part of the calls in it.
    pub failure_percent: u32,
    /// The time within which results are counted.
    pub window_ms: u64,
    /// A call that took at least this long is slow, even if it succeeded.
    pub slow_after_ms: Option<u64>,
    /// The breaker opens if `failures` calls, and at least this part of all, were slow.
    pub slow_percent: u32,
    /// How long the breaker stays open before it allows a probe. Doubles with every probe that fails.
    pub pause_ms: u64,
    /// The upper limit of the pause, and of a pause that the destination asks for.
    pub max_pause_ms: u64,
    /// A pause is this much shorter or longer at random, so that processes do not probe together.
    pub jitter_percent: u32,
    /// A probe without a result is replaced after this time. It must be longer than a call may take.
    pub probe_limit_ms: u64,
    /// After a successful probe, 1, 2, 4 … calls are allowed at the same time, up to this number; then all are. With 0,
    /// all are allowed at once.
    pub slow_start_until: u32,
}

impl Default for BreakerSettings {
    /// Five failures in a minute, if they are half of the calls, open the breaker for 30 seconds.
    fn default() -> Self {
        Self {
            failures: 5,
            failure_percent: 50,
            window_ms: 60_000,
            slow_after_ms: None,
            slow_percent: 100,
            pause_ms: 30_000,
            max_pause_ms: 300_000,
            jitter_percent: 10,
            probe_limit_ms: 60_000,
            slow_start_until: 64,
        }
    }
}

impl BreakerSettings {
    /// Returns everything that is wrong with these settings; an empty list if they can be used.
    pub fn validate(&self) -> Vec<String> {
        let checks = [
            (self.failures >= 1, "failures must be at least 1"),
            (self.failure_percent <= 100, "failure_percent must be at most 100"),
            (self.window_ms >= 1, "window_ms must be at least 1"),
            (self.slow_percent >= 1 && self.slow_percent <= 100, "slow_percent must be from 1 to 100"),
            (self.pause_ms >= 1, "pause_ms must be at least 1"),
            (self.pause_ms <= self.max_pause_ms, "pause_ms must not exceed max_pause_ms"),
            (self.jitter_percent <= 50, "jitter_percent must be at most 50"),
            (self.probe_limit_ms >= 1, "probe_limit_ms must be at least 1"),
        ];
        checks.into_iter().filter(|(is_right, _)| !is_right).map(|(_, mistake)| mistake.to_owned()).collect()
    }

    /// Returns what a call that took this long says about the destination: a slow success does not close a breaker.
    pub fn outcome_of_probe(&self, outcome: Outcome, took_ms: u64) -> Outcome {
        let is_slow = self.slow_after_ms.is_some_and(|slow_ms| took_ms >= slow_ms);
        if is_slow && outcome == Outcome::Success { Outcome::Failure } else { outcome }
    }

    /// Returns the pause after one of `pause_ms` in which the probe failed.
    pub(crate) fn next_pause_ms(&self, pause_ms: u64) -> u64 {
        pause_ms.saturating_mul(2).min(self.max_pause_ms)
    }

    /// Returns when to ask again while a probe is in flight: its result comes soon, and long before its limit.
    pub(crate) fn probe_wait_ms(&self, remaining_ms: u64) -> u64 {
        remaining_ms.min((self.pause_ms / 10).max(PROBE_WAIT_MIN_MS))
    }

    /// Returns the pause with jitter. `random` is from 0 to 1.
    pub(crate) fn jittered_ms(&self, pause_ms: u64, random: f64) -> u64 {
        let part = f64::from(self.jitter_percent) / 100.0 * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        (pause_ms as f64 * (1.0 + part)).round() as u64
    }
}

/// What the result of a call says about its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The destination did what it was asked to.
    Success,
    /// It did not answer in time, could not be reached, or failed: a connection error, a timeout, a status of 5xx.
    Failure,
    /// It asked for a pause. Half as bad as a failure.
    Throttled {
        /// The pause it asked for (`Retry-After`).
        retry_after_ms: Option<u64>,
    },
    /// The call says nothing about the destination: it refused the request (4xx), or the caller gave up.
    Ignored,
    /// There is no result: the caller was stopped in the middle.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_maximum_and_never_overflows() {
        let settings = BreakerSettings::default();
        let pauses: Vec<u64> =
            std::iter::successors(Some(settings.pause_ms), |pause| Some(settings.next_pause_ms(*pause)))
                .take(6)
                .collect();
        assert_eq!(pauses, [30_000, 60_000, 120_000, 240_000, 300_000, 300_000]);
        let unlimited = BreakerSettings { max_pause_ms: u64::MAX, ..settings };
        assert_eq!(unlimited.next_pause_ms(u64::MAX / 2 + 1), u64::MAX);
    }

    #[test]
    fn jitter_stays_within_a_tenth() {
        let settings = BreakerSettings::default();
        assert_eq!([0.0, 0.5, 1.0].map(|random| settings.jittered_ms(30_000, random)), [27_000, 30_000, 33_000]);
    }

    #[test]
    fn a_slow_probe_fails_only_if_slow_calls_count() {
        let slow = BreakerSettings { slow_after_ms: Some(1_000), ..BreakerSettings::default() };
        assert_eq!(slow.outcome_of_probe(Outcome::Success, 999), Outcome::Success);
        assert_eq!(slow.outcome_of_probe(Outcome::Success, 1_000), Outcome::Failure);
        assert_eq!(slow.outcome_of_probe(Outcome::Ignored, 1_000), Outcome::Ignored);
        assert_eq!(BreakerSettings::default().outcome_of_probe(Outcome::Success, u64::MAX), Outcome::Success);
    }

    #[test]
    fn every_mistake_is_reported() {
        assert_eq!(BreakerSettings::default().validate(), [""; 0]);
        let wrong = BreakerSettings { failures: 0, pause_ms: 10, max_pause_ms: 5, ..BreakerSettings::default() };
        assert_eq!(wrong.validate(), ["failures must be at least 1", "pause_ms must not exceed max_pause_ms"]);
    }
}

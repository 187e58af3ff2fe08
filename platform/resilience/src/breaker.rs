//! A circuit breaker: after enough failures it rejects calls until a single probe has succeeded.

use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// When a breaker opens and how long it stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The number of failures within `window` that opens the breaker.
    pub failures: usize,
    /// The time within which failures are counted.
    pub window: Duration,
    /// How long the breaker stays open before it allows a probe. Doubles with every probe that fails.
    pub open_for: Duration,
    /// The upper limit of `open_for` after failed probes.
    pub max_open_for: Duration,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerDecision {
    /// The call is allowed.
    Allow,
    /// The call is allowed as a probe. Its result decides whether the breaker closes, so the caller must report it.
    Probe,
    /// The call is rejected. The next probe is allowed after this time.
    Reject(Duration),
}

#[derive(Debug)]
enum BreakerState {
    Closed {
        failed_at: VecDeque<Instant>,
    },
    Open {
        until: Instant,
        pause: Duration,
    },
    /// A probe is in progress. Another one is allowed if its result is not reported by `until`.
    Probing {
        until: Instant,
        pause: Duration,
    },
}

/// A circuit breaker that many callers share.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<BreakerState>,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::new(BreakerState::Closed { failed_at: VecDeque::new() }) }
    }

    /// Decides whether a call may be made now. Must be called before every call.
    pub fn check(&self, now: Instant) -> BreakerDecision {
        let mut state = self.state.lock();
        match *state {
            BreakerState::Closed { .. } => BreakerDecision::Allow,
            BreakerState::Open { until, .. } | BreakerState::Probing { until, .. } if now < until => {
                BreakerDecision::Reject(until - now)
            }
            BreakerState::Open { pause, .. } | BreakerState::Probing { pause, .. } => {
                *state = BreakerState::Probing { until: now + self.settings.max_open_for.max(pause), pause };
                BreakerDecision::Probe
            }
        }
    }

    /// Reports that a call succeeded. Returns whether this closed the breaker.
    pub fn succeeded(&self) -> bool {
        let mut state = self.state.lock();
        // A call that started before the breaker opened does not prove that calls succeed now.
        let probed = matches!(*state, BreakerState::Probing { .. });
        if probed {
            *state = BreakerState::Closed { failed_at: VecDeque::new() };
        }
        probed
    }

    /// Reports that a call failed. Returns whether this opened the breaker.
    pub fn failed(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        match &mut *state {
            BreakerState::Closed { failed_at } => {
                failed_at.push_back(now);
                while failed_at.front().is_some_and(|first| now.duration_since(*first) > self.settings.window) {
                    failed_at.pop_front();
                }
                let opens = failed_at.len() >= self.settings.failures;
                if opens {
                    *state = BreakerState::Open { until: now + self.settings.open_for, pause: self.settings.open_for };
                }
                opens
            }
            BreakerState::Probing { pause, .. } => {
                let pause = (*pause * 2).min(self.settings.max_open_for);
                *state = BreakerState::Open { until: now + pause, pause };
                false
            }
            BreakerState::Open { .. } => false,
        }
    }

    /// Returns whether calls are allowed.
    pub fn is_closed(&self) -> bool {
        matches!(*self.state.lock(), BreakerState::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const FIVE_PER_MINUTE: BreakerSettings = BreakerSettings {
        failures: 5,
        window: Duration::from_secs(60),
        open_for: Duration::from_secs(30),
        max_open_for: Duration::from_secs(30),
    };

    #[test]
    fn failures_within_the_window_open_the_breaker_and_older_ones_do_not_count() {
        let (breaker, start) = (Breaker::new(FIVE_PER_MINUTE), Instant::now());
        for second in 0..4 {
            assert!(!breaker.failed(start + S * second));
        }
        assert!(!breaker.failed(start + S * 61), "failures before the window do not count");
        assert!(!breaker.failed(start + S * 62));
        assert!(breaker.failed(start + S * 62));
        assert_eq!(breaker.check(start + S * 63), BreakerDecision::Reject(S * 29));
    }

    #[test]
    fn one_probe_at_a_time_closes_the_breaker() {
        let (breaker, start) = (Breaker::new(BreakerSettings { failures: 1, ..FIVE_PER_MINUTE }), Instant::now());
        assert!(breaker.failed(start));
        assert_eq!(breaker.check(start + S * 30), BreakerDecision::Probe);
        assert!(matches!(breaker.check(start + S * 30), BreakerDecision::Reject(_)));
        assert!(breaker.succeeded());
        assert_eq!(breaker.check(start + S * 31), BreakerDecision::Allow);
    }

    #[test]
    fn failed_probes_double_the_pause_up_to_a_limit() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, max_open_for: S * 3 };
        let (breaker, mut now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        for pause in [1, 2, 3, 3] {
            assert_eq!(breaker.check(now), BreakerDecision::Reject(S * pause));
            now += S * pause;
            assert_eq!(breaker.check(now), BreakerDecision::Probe);
            breaker.failed(now);
        }
    }

    #[test]
    fn a_probe_without_a_result_is_replaced() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, max_open_for: S };
        let (breaker, now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        assert_eq!(breaker.check(now + S), BreakerDecision::Probe);
        assert_eq!(breaker.check(now + S * 2), BreakerDecision::Probe);
    }

    #[test]
    fn a_late_success_of_an_earlier_call_does_not_close_the_breaker() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, max_open_for: S };
        let (breaker, now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        assert!(!breaker.succeeded());
        assert!(!breaker.is_closed());
    }
}

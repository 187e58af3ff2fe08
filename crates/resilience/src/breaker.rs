//! A circuit breaker: after enough failures nobody calls any more, until a single probe has succeeded.

use std::{
    collections::VecDeque,
    sync::Mutex,
    time::{Duration, Instant},
};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Opens after so many failures
    pub failures: usize,
    /// within this time.
    pub window: Duration,
    /// Stays open for this long, then lets one probe through. Doubles with every probe that fails,
    pub open_for: Duration,
    /// up to this.
    pub longest: Duration,
}

impl BreakerSettings {
    /// Five failures within a minute open it for half a minute.
    pub const fn for_calls() -> Self {
        let half_a_minute = Duration::from_secs(30);
        Self { failures: 5, window: Duration::from_secs(60), open_for: half_a_minute, longest: half_a_minute }
    }
}

/// May this call be made?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Yes.
    Go,
    /// Yes, and everything depends on it: say how it went.
    Probe,
    /// No; ask again after this time.
    Wait(Duration),
}

#[derive(Debug)]
enum State {
    Closed {
        failed_at: VecDeque<Instant>,
    },
    Open {
        until: Instant,
        pause: Duration,
    },
    /// The probe has until then to say how it went; after that another one may go.
    Probing {
        until: Instant,
        pause: Duration,
    },
}

/// A breaker that many callers share.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::new(State::Closed { failed_at: VecDeque::new() }) }
    }

    /// May a call be made now?
    pub fn ask(&self, now: Instant) -> Pass {
        let mut state = self.state.lock().expect("no panic while held");
        match *state {
            State::Closed { .. } => Pass::Go,
            State::Open { until, .. } | State::Probing { until, .. } if now < until => Pass::Wait(until - now),
            State::Open { pause, .. } | State::Probing { pause, .. } => {
                *state = State::Probing { until: now + self.settings.longest.max(pause), pause };
                Pass::Probe
            }
        }
    }

    /// A call succeeded. `true`: this closed the breaker.
    pub fn succeeded(&self) -> bool {
        let mut state = self.state.lock().expect("no panic while held");
        // A call that began before the breaker opened proves nothing about now.
        let probed = matches!(*state, State::Probing { .. });
        if probed {
            *state = State::Closed { failed_at: VecDeque::new() };
        }
        probed
    }

    /// A call failed. `true`: this opened the breaker.
    pub fn failed(&self, now: Instant) -> bool {
        let mut state = self.state.lock().expect("no panic while held");
        match &mut *state {
            State::Closed { failed_at } => {
                failed_at.push_back(now);
                while failed_at.front().is_some_and(|first| now.duration_since(*first) > self.settings.window) {
                    failed_at.pop_front();
                }
                let opens = failed_at.len() >= self.settings.failures;
                if opens {
                    *state = State::Open { until: now + self.settings.open_for, pause: self.settings.open_for };
                }
                opens
            }
            State::Probing { pause, .. } => {
                let pause = (*pause * 2).min(self.settings.longest);
                *state = State::Open { until: now + pause, pause };
                false
            }
            State::Open { .. } => false,
        }
    }

    /// Calls are made.
    pub fn is_closed(&self) -> bool {
        matches!(*self.state.lock().expect("no panic while held"), State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn failures_within_the_window_open_it_and_old_ones_do_not_count() {
        let (breaker, start) = (Breaker::new(BreakerSettings::for_calls()), Instant::now());
        for second in 0..4 {
            assert!(!breaker.failed(start + S * second));
        }
        assert!(!breaker.failed(start + S * 61), "the first ones are forgotten");
        assert!(!breaker.failed(start + S * 62));
        assert!(breaker.failed(start + S * 62));
        assert_eq!(breaker.ask(start + S * 63), Pass::Wait(S * 29));
    }

    #[test]
    fn one_probe_at_a_time_decides() {
        let (breaker, start) =
            (Breaker::new(BreakerSettings { failures: 1, ..BreakerSettings::for_calls() }), Instant::now());
        assert!(breaker.failed(start));
        assert_eq!(breaker.ask(start + S * 30), Pass::Probe);
        assert!(matches!(breaker.ask(start + S * 30), Pass::Wait(_)));
        assert!(breaker.succeeded());
        assert_eq!(breaker.ask(start + S * 31), Pass::Go);
    }

    #[test]
    fn failed_probes_make_the_pause_longer_up_to_a_limit() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, longest: S * 3 };
        let (breaker, mut now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        for pause in [1, 2, 3, 3] {
            assert_eq!(breaker.ask(now), Pass::Wait(S * pause));
            now += S * pause;
            assert_eq!(breaker.ask(now), Pass::Probe);
            breaker.failed(now);
        }
    }

    #[test]
    fn a_probe_that_never_answers_is_replaced() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, longest: S };
        let (breaker, now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        assert_eq!(breaker.ask(now + S), Pass::Probe);
        assert_eq!(breaker.ask(now + S * 2), Pass::Probe);
    }

    #[test]
    fn a_late_success_of_an_earlier_call_does_not_close_it() {
        let settings = BreakerSettings { failures: 1, window: S, open_for: S, longest: S };
        let (breaker, now) = (Breaker::new(settings), Instant::now());
        breaker.failed(now);
        assert!(!breaker.succeeded());
        assert!(!breaker.is_closed());
    }
}

//! A circuit breaker: after enough failures it rejects calls until a single probe has succeeded, and then lets the
//! traffic grow step by step.
//!
//! ```text
//!                 failures ≥ 5 and ≥ 50 %
//!     ┌────────┐ ─────────────────────────► ┌──────┐ ◄───────────────┐
//!     │ closed │                            │ open │                 │ it fails: twice the pause
//!     └────────┘ ◄──┐                       └──────┘                 │ it is ignored: the same pause
//!                   │ all may call           │    ▲                  │
//!              ┌─────────┐  the pause is over│    │ fails again ┌─────────┐ ──┐ no result within the limit:
//!              │ closing │ ──────────────────┼────┘             │ probing │   │ the next call is the probe
//!              └─────────┘                   └────────────────► └─────────┘ ◄─┘
//!                   ▲                it succeeds                     │
//!                   └────────────────────────────────────────────────┘
//! ```
//!
//! A call holds a [`Ticket`] of the generation in which it began. Each opening, probe and closing begins a new
//! generation, and the result of a call of an earlier one decides nothing.

mod settings;
mod window;

pub use settings::{BreakerSettings, Outcome};
use window::{Counts, Window};

/// How long a caller should wait while a breaker that is closing has enough calls in flight.
const SLOW_START_WAIT_MS: u64 = 250;

/// Permission for one call. Report its result with [`Breaker::complete`], even if there is none.
#[must_use = "a breaker that does not learn the result cannot protect anything"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    generation: u64,
    kind: TicketKind,
    started_ms: u64,
}

impl Ticket {
    /// Returns what the call is to the breaker.
    pub fn kind(&self) -> TicketKind {
        self.kind
    }
}

/// What a call is to its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TicketKind {
    /// One of many.
    Call,
    /// The one call whose result decides whether the breaker closes.
    Probe,
}

/// Why a breaker rejected a call, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A call has no chance before this time has passed.
    pub retry_after_ms: u64,
    /// The state that rejected it.
    pub phase: BreakerPhase,
}

/// The state of a breaker, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerPhase {
    /// Calls are allowed.
    Closed,
    /// Calls are rejected until the pause is over.
    Open,
    /// A probe is in flight; other calls are rejected.
    Probing,
    /// The probe succeeded; more and more calls are allowed.
    Closing,
}

/// What a result changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// The breaker opened for this long.
    Opened {
        /// The pause until the probe.
        pause_ms: u64,
    },
    /// The probe failed, and the breaker stays open for this long.
    ProbeFailed {
        /// The pause until the next probe.
        pause_ms: u64,
    },
    /// The probe succeeded: calls are allowed again.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Calls are rejected until `held_until_ms` if the destination asked for a pause.
    Closed {
        window: Window,
        held_until_ms: u64,
        slow_start: Option<SlowStart>,
    },
    Open {
        until_ms: u64,
        pause_ms: u64,
    },
    Probing {
        until_ms: u64,
        pause_ms: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SlowStart {
    limit: u32,
    in_flight: u32,
    /// The pause before; the next one is twice as long if the breaker opens again before it is closed.
    pause_ms: u64,
}

/// A circuit breaker. The caller passes the time, in milliseconds of any monotonic clock, and random numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Breaker {
    settings: BreakerSettings,
    generation: u64,
    state: State,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, generation: 0, state: closed(&settings, None) }
    }

    /// Returns why a call would be rejected now; `None` if it would be allowed. Changes nothing.
    pub fn rejection(&self, now_ms: u64) -> Option<Rejection> {
        let retry_after_ms = match &self.state {
            State::Closed { held_until_ms, .. } if now_ms < *held_until_ms => *held_until_ms - now_ms,
            State::Closed { slow_start: Some(start), .. } if start.in_flight >= start.limit => SLOW_START_WAIT_MS,
            State::Open { until_ms, .. } if now_ms < *until_ms => *until_ms - now_ms,
            State::Probing { until_ms, .. } if now_ms < *until_ms => self.settings.probe_wait_ms(*until_ms - now_ms),
            _ => return None,
        };
        Some(Rejection { retry_after_ms, phase: self.phase() })
    }

    /// Asks for permission for one call.
    pub fn try_acquire(&mut self, now_ms: u64) -> Result<Ticket, Rejection> {
        if let Some(rejection) = self.rejection(now_ms) {
            return Err(rejection);
        }
        match &mut self.state {
            State::Closed { slow_start, .. } => {
                if let Some(start) = slow_start {
                    start.in_flight += 1;
                }
                Ok(Ticket { generation: self.generation, kind: TicketKind::Call, started_ms: now_ms })
            }
            State::Open { pause_ms, .. } | State::Probing { pause_ms, .. } => {
                let until_ms = now_ms.saturating_add(self.settings.probe_limit_ms);
                let state = State::Probing { until_ms, pause_ms: *pause_ms };
                self.enter(state);
                Ok(Ticket { generation: self.generation, kind: TicketKind::Probe, started_ms: now_ms })
            }
        }
    }

    /// Reports the result of a call. Returns what it changed. `random`, from 0 to 1, is the jitter of a pause.
    pub fn complete(&mut self, ticket: Ticket, outcome: Outcome, now_ms: u64, random: f64) -> Option<BreakerChange> {
        // A call that began before the breaker opened says nothing about the destination as it is now.
        if ticket.generation != self.generation {
            return None;
        }
        let took_ms = now_ms.saturating_sub(ticket.started_ms);
        let is_slow = self.settings.slow_after_ms.is_some_and(|slow_ms| took_ms >= slow_ms);
        match (&self.state, outcome) {
            (State::Closed { .. }, _) => self.count(outcome, is_slow, now_ms, random),
            // The probe is replaced after its limit: nobody knows whether it still runs.
            (State::Probing { .. }, Outcome::Unknown) => None,
            (State::Probing { .. }, Outcome::Success) if !is_slow => {
                self.close();
                Some(BreakerChange::Closed)
            }
            (State::Probing { pause_ms, .. }, _) => {
                let next_ms = match outcome {
                    Outcome::Ignored => *pause_ms,
                    _ => self.settings.next_pause_ms(*pause_ms),
                };
                let least_ms = requested_ms(outcome).min(self.settings.max_pause_ms);
                let pause_ms = self.open(next_ms, least_ms, now_ms, random);
                Some(BreakerChange::ProbeFailed { pause_ms })
            }
            (State::Open { .. }, _) => None,
        }
    }

    /// Closes the breaker, whatever its state is, with a slow start.
    pub fn close(&mut self) {
        let pause_ms = match self.state {
            State::Open { pause_ms, .. } | State::Probing { pause_ms, .. } => pause_ms,
            State::Closed { .. } => self.settings.pause_ms / 2,
        };
        let slow_start = (self.settings.slow_start_until > 0).then_some(SlowStart { limit: 1, in_flight: 0, pause_ms });
        self.enter(closed(&self.settings, slow_start));
    }

    /// Returns the name of the state.
    pub fn phase(&self) -> BreakerPhase {
        match self.state {
            State::Closed { slow_start: None, .. } => BreakerPhase::Closed,
            State::Closed { slow_start: Some(_), .. } => BreakerPhase::Closing,
            State::Open { .. } => BreakerPhase::Open,
            State::Probing { .. } => BreakerPhase::Probing,
        }
    }

    /// Returns whether calls are allowed, if only a few at a time.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Counts a result while calls are allowed.
    fn count(&mut self, outcome: Outcome, is_slow: bool, now_ms: u64, random: f64) -> Option<BreakerChange> {
        let settings = self.settings;
        let State::Closed { window, held_until_ms, slow_start } = &mut self.state else {
            return None;
        };
        let half_failures = match outcome {
            Outcome::Success => 0,
            Outcome::Failure => 2,
            Outcome::Throttled { .. } => 1,
            Outcome::Ignored | Outcome::Unknown => {
                slow_start.iter_mut().for_each(|start| start.in_flight -= 1);
                return None;
            }
        };
        window.add(Counts { calls: 1, half_failures, slow: u64::from(is_slow) }, now_ms);
        let hold_ms = requested_ms(outcome).min(settings.max_pause_ms);
        if hold_ms > 0 {
            *held_until_ms = (*held_until_ms).max(now_ms.saturating_add(hold_ms));
        }
        if opens(&settings, window.total()) {
            let pause_ms = slow_start.map_or(settings.pause_ms, |start| settings.next_pause_ms(start.pause_ms));
            let pause_ms = self.open(pause_ms, hold_ms, now_ms, random);
            return Some(BreakerChange::Opened { pause_ms });
        }
        if let Some(start) = slow_start {
            start.in_flight -= 1;
            // One more per success doubles the limit with every round of calls.
            start.limit = if half_failures == 0 { start.limit + 1 } else { 1 };
            if start.limit > settings.slow_start_until {
                *slow_start = None;
            }
        }
        None
    }

    /// Opens for `pause_ms` with jitter, and at least for `least_ms`. Returns the actual pause.
    fn open(&mut self, pause_ms: u64, least_ms: u64, now_ms: u64, random: f64) -> u64 {
        let actual_ms = self.settings.jittered_ms(pause_ms, random).max(least_ms);
        self.enter(State::Open { until_ms: now_ms.saturating_add(actual_ms), pause_ms });
        actual_ms
    }

    fn enter(&mut self, state: State) {
        self.generation += 1;
        self.state = state;
    }
}

fn closed(settings: &BreakerSettings, slow_start: Option<SlowStart>) -> State {
    State::Closed { window: Window::new(settings.window_ms), held_until_ms: 0, slow_start }
}

fn requested_ms(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Throttled { retry_after_ms } => retry_after_ms.unwrap_or(0),
        _ => 0,
    }
}

/// Compares in integers: failures are counted in halves, and a part of the calls in hundredths.
fn opens(settings: &BreakerSettings, total: Counts) -> bool {
    let (least, calls) = (u64::from(settings.failures), total.calls);
    let failing = total.half_failures >= 2 * least
        && total.half_failures * 100 >= 2 * calls * u64::from(settings.failure_percent);
    let slow = total.slow >= least && total.slow * 100 >= calls * u64::from(settings.slow_percent);
    failing || slow
}

#[cfg(test)]
mod tests;

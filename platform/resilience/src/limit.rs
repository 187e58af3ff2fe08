//! A limit on the calls in flight that follows what a destination can do.
//!
//! A fixed limit is a guess. An adaptive one grows while calls succeed and the limit is what holds them back, and shrinks when
//! the destination drops calls: it times out, fails, or asks for a pause. [`LimitRule`] says by how much.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The bounds of an adaptive limit, and the rule by which it moves between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdaptiveLimit {
    /// The rule.
    pub rule: LimitRule,
    /// The least limit.
    pub min: usize,
    /// The greatest limit.
    pub max: usize,
}

impl Default for AdaptiveLimit {
    fn default() -> Self {
        Self { rule: LimitRule::Aimd, min: 1, max: 256 }
    }
}

/// How an adaptive limit moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitRule {
    /// Additive increase, multiplicative decrease: one more after a success, a tenth less after a drop.
    Aimd,
    /// By the queue that the destination seems to have, estimated from how much longer a call takes than the fastest one:
    /// more calls if it is short, fewer if it is long or a call was dropped.
    Vegas {
        /// A queue shorter than this lets the limit grow.
        alpha: usize,
        /// A queue longer than this lets the limit shrink; an empty one lets it grow by this number.
        beta: usize,
    },
}

/// The result of a call, as far as a limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSample {
    /// How long the call took.
    pub took: Duration,
    /// The calls in flight when it began, itself included.
    pub in_flight: usize,
    /// Whether the destination dropped it.
    pub is_drop: bool,
}

/// After this many samples per permitted call, the fastest call is forgotten: the way to the destination may have changed.
const SAMPLES_PER_BASELINE: usize = 30;

/// A limit on the calls in flight, fixed or adaptive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    limit: usize,
    adaptive: Option<AdaptiveLimit>,
    /// The time of the fastest call.
    baseline: Option<Duration>,
    samples: usize,
}

impl ConcurrencyLimit {
    /// Creates a limit. Without `adaptive` it never changes.
    pub fn new(limit: usize, adaptive: Option<AdaptiveLimit>) -> Self {
        Self { limit: limit.max(1), adaptive, baseline: None, samples: 0 }
    }

    /// Returns the number of calls that may be in flight now.
    pub fn get(&self) -> usize {
        self.limit
    }

    /// Moves the limit by the result of a call.
    pub fn update(&mut self, sample: CallSample) {
        let Some(AdaptiveLimit { rule, min, max }) = self.adaptive else { return };
        let next = match rule {
            LimitRule::Aimd => self.aimd(sample),
            LimitRule::Vegas { alpha, beta } => self.vegas(sample, alpha, beta),
        };
        self.limit = next.clamp(min.max(1), max.max(min).max(1));
    }

    /// Calls below half of the limit are not held back by it, so that their success says nothing about a greater one.
    fn is_used(&self, sample: CallSample) -> bool {
        sample.in_flight.saturating_mul(2) >= self.limit
    }

    fn aimd(&self, sample: CallSample) -> usize {
        if sample.is_drop { self.limit * 9 / 10 } else { self.limit + usize::from(self.is_used(sample)) }
    }

    fn vegas(&mut self, sample: CallSample, alpha: usize, beta: usize) -> usize {
        let step = (self.limit.ilog10() as usize).max(1);
        if sample.is_drop {
            return self.limit.saturating_sub(step);
        }
        self.samples += 1;
        if self.samples > SAMPLES_PER_BASELINE * self.limit {
            (self.baseline, self.samples) = (None, 0);
        }
        let Some(baseline) = self.baseline.filter(|baseline| *baseline <= sample.took) else {
            self.baseline = Some(sample.took);
            return self.limit;
        };
        if !self.is_used(sample) {
            return self.limit;
        }
        let queue = queue_length(self.limit, baseline, sample.took);
        if queue <= step {
            self.limit + beta
        } else if queue < alpha {
            self.limit + step
        } else if queue > beta {
            self.limit.saturating_sub(step)
        } else {
            self.limit
        }
    }
}

/// Returns how many of `limit` calls wait at the destination, if the fastest call waited for none.
fn queue_length(limit: usize, fastest: Duration, took: Duration) -> usize {
    let (fastest, took) = (fastest.as_micros(), took.as_micros().max(1));
    let waiting = (limit as u128 * took.saturating_sub(fastest)).div_ceil(took);
    usize::try_from(waiting).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VEGAS: LimitRule = LimitRule::Vegas { alpha: 3, beta: 6 };

    fn limit(initial: usize, rule: LimitRule) -> ConcurrencyLimit {
        ConcurrencyLimit::new(initial, Some(AdaptiveLimit { rule, min: 2, max: 40 }))
    }

    fn sample(ms: u64, in_flight: usize) -> CallSample {
        CallSample { took: Duration::from_millis(ms), in_flight, is_drop: false }
    }

    fn drop_of(in_flight: usize) -> CallSample {
        CallSample { is_drop: true, ..sample(10, in_flight) }
    }

    #[test]
    fn a_fixed_limit_never_moves() {
        let mut fixed = ConcurrencyLimit::new(10, None);
        fixed.update(drop_of(10));
        fixed.update(sample(10, 10));
        assert_eq!(fixed.get(), 10);
    }

    #[test]
    fn a_limit_stays_within_its_bounds() {
        for rule in [LimitRule::Aimd, VEGAS] {
            let mut limit = limit(10, rule);
            (0..1_000).for_each(|_| limit.update(sample(10, 40)));
            assert_eq!(limit.get(), 40, "{rule:?}");
            (0..1_000).for_each(|_| limit.update(drop_of(40)));
            assert_eq!(limit.get(), 2, "{rule:?}");
        }
    }

    #[test]
    fn a_limit_that_holds_nobody_back_does_not_grow() {
        for rule in [LimitRule::Aimd, VEGAS] {
            let mut limit = limit(10, rule);
            (0..100).for_each(|_| limit.update(sample(10, 4)));
            assert_eq!(limit.get(), 10, "{rule:?}");
        }
    }

    #[test]
    fn calls_that_take_ever_longer_shrink_a_limit_by_delay() {
        let mut limit = limit(20, VEGAS);
        limit.update(sample(10, 20));
        limit.update(sample(40, 20));
        assert_eq!(limit.get(), 19, "fifteen of twenty calls wait");
    }
}

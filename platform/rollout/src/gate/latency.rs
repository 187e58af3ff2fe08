//! Limits the 95th percentile of latencies.

use super::{
    GateAnswer, Sample,
    bounds::{at_least, at_most},
};

/// The share of messages that may be slower than the 95th percentile.
const SLOW_SHARE: f64 = 0.05;

/// Latencies as a gate sees them. They come from a histogram with a bound at the gate's limit; with other bounds, nobody can
/// say how many were slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySample {
    /// The number of messages.
    pub messages: u64,
    /// How many of them took longer than the limit.
    pub slower: u64,
}

/// Limits the 95th percentile of latencies: at most one message in twenty may be slower than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyGate {
    /// The limit, at which the histograms must have a bound.
    pub p95_limit_ms: u64,
    /// It never answers with fewer messages of the candidate or, if there is one, of the control.
    pub min_messages: u64,
}

impl LatencyGate {
    /// Returns a gate with this limit and at least 100 messages per arm.
    pub const fn new(p95_limit_ms: u64) -> Self {
        Self { p95_limit_ms, min_messages: 100 }
    }

    /// Returns the candidate's or the control's sample from a histogram: upper bounds in milliseconds with the number of
    /// latencies in each bucket, in ascending order. Returns `None` if no bound is the limit.
    pub fn sample(&self, buckets: &[(u64, u64)], above_all_bounds: u64) -> Option<LatencySample> {
        let limit = buckets.iter().position(|(bound, _)| *bound == self.p95_limit_ms)?;
        let count = |buckets: &[(u64, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
        let slower = count(&buckets[limit + 1..]) + above_all_bounds;
        Some(LatencySample { messages: count(&buckets[..=limit]) + slower, slower })
    }

    /// Answers for the candidate and, if there is one, the control of the same period. The gate passes with 95 %
    /// confidence that the percentile is within the limit and fails with 99 % that it is not. It does not fail while the
    /// control is over the limit as well: then the candidate is not the cause.
    pub fn answer(&self, candidate: LatencySample, control: Option<LatencySample>) -> GateAnswer {
        let is_small = |sample: LatencySample| sample.messages < self.min_messages;
        if is_small(candidate) || control.is_some_and(is_small) {
            return GateAnswer::NotEnoughData;
        }
        if is_over(candidate) {
            let is_excused = control.is_some_and(is_over);
            return if is_excused { GateAnswer::NotEnoughData } else { GateAnswer::Fail };
        }
        if at_most(slow(candidate), SLOW_SHARE) < 0.05 { GateAnswer::Pass } else { GateAnswer::NotEnoughData }
    }
}

fn is_over(sample: LatencySample) -> bool {
    at_least(slow(sample), SLOW_SHARE) < 0.01
}

fn slow(sample: LatencySample) -> Sample {
    Sample { messages: sample.messages, failures: sample.slower }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATE: LatencyGate = LatencyGate::new(500);

    fn sample(messages: u64, slower: u64) -> LatencySample {
        LatencySample { messages, slower }
    }

    #[test]
    fn fewer_than_a_hundred_latencies_of_either_arm_decide_nothing() {
        assert_eq!(GATE.answer(sample(99, 99), None), GateAnswer::NotEnoughData);
        assert_eq!(GATE.answer(sample(1_000, 0), Some(sample(99, 0))), GateAnswer::NotEnoughData);
        assert_eq!(GATE.answer(LatencySample::default(), None), GateAnswer::NotEnoughData);
    }

    #[test]
    fn a_fast_candidate_passes_a_slow_one_fails_and_one_at_the_limit_is_held() {
        assert_eq!(GATE.answer(sample(100, 0), None), GateAnswer::Pass);
        assert_eq!(GATE.answer(sample(100, 20), Some(sample(100, 1))), GateAnswer::Fail);
        assert_eq!(GATE.answer(sample(100, 5), None), GateAnswer::NotEnoughData);
    }

    #[test]
    fn a_candidate_is_not_blamed_for_a_control_that_is_slow_as_well() {
        assert_eq!(GATE.answer(sample(100, 20), Some(sample(100, 20))), GateAnswer::NotEnoughData);
    }

    #[test]
    fn a_histogram_without_a_bound_at_the_limit_is_no_sample() {
        assert_eq!(GATE.sample(&[(100, 7), (500, 2), (1_000, 1)], 3), Some(sample(13, 4)));
        assert_eq!(GATE.sample(&[(100, 7), (1_000, 1)], 0), None);
    }
}

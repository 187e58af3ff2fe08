//! The gates of a canary release: pure functions from figures to an answer. There are three answers, because no data is
//! neither success nor failure: pass, fail, and not enough data, which holds the release where it is.

pub(crate) mod bounds;
mod latency;

pub use latency::{LatencyGate, LatencySample};

use bounds::{at_least, at_most, fisher_exact, lower_bound, upper_bound};

/// Messages that were handled, and how many of them failed for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The number of messages, failures included.
    pub messages: u64,
    /// The number of failures; never more than messages.
    pub failures: u64,
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// The release may take its next step.
    Pass,
    /// The release must stop.
    Fail,
    /// Neither can be said yet. The release stays where it is.
    NotEnoughData,
}

/// Limits the rate of failures.
///
/// It passes when the upper bound is below the limit, and fails when the lower bound is above it or the candidate is worse
/// than the control of the same period. Failing needs more certainty than passing because it is decided after every
/// message: with 95 %, one in a hundred healthy releases would be stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureGate {
    /// The highest acceptable failure rate, such as 0.005.
    pub limit: f64,
    /// The confidence of the upper bound with which it passes.
    pub pass_confidence: f64,
    /// The confidence of the lower bound with which it fails.
    pub fail_confidence: f64,
    /// It never fails with fewer failures.
    pub min_failures: u64,
    /// It fails when the candidate would be this bad by chance with at most this probability, given the control.
    pub control_significance: f64,
}

impl Default for FailureGate {
    fn default() -> Self {
        Self {
            limit: 0.005,
            pass_confidence: 0.95,
            fail_confidence: 0.99,
            min_failures: 2,
            control_significance: 0.001,
        }
    }
}

/// The figures behind an answer, for the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateFigures {
    /// The lower bound of the failure rate.
    pub lower: f64,
    /// The upper bound of the failure rate.
    pub upper: f64,
    /// The probability that the candidate is this much worse than the control by chance.
    pub worse_by_chance: Option<f64>,
}

impl FailureGate {
    /// Answers for the candidate's messages and, if there is one, the control's of the same period.
    pub fn answer(&self, candidate: Sample, control: Option<Sample>) -> GateAnswer {
        if candidate.failures >= self.min_failures && self.is_too_bad(candidate, control) {
            return GateAnswer::Fail;
        }
        // The bound is below the limit if, at the limit, so few failures would be a surprise.
        if candidate.messages > 0 && at_most(candidate, self.limit) < 1.0 - self.pass_confidence {
            return GateAnswer::Pass;
        }
        GateAnswer::NotEnoughData
    }

    fn is_too_bad(&self, candidate: Sample, control: Option<Sample>) -> bool {
        let is_worse = |control| fisher_exact(candidate, control) <= self.control_significance;
        at_least(candidate, self.limit) < 1.0 - self.fail_confidence || control.is_some_and(is_worse)
    }

    /// Returns the figures that [`FailureGate::answer`] compares.
    pub fn figures(&self, candidate: Sample, control: Option<Sample>) -> GateFigures {
        GateFigures {
            lower: lower_bound(candidate, self.fail_confidence),
            upper: upper_bound(candidate, self.pass_confidence),
            worse_by_chance: control.map(|control| fisher_exact(candidate, control)),
        }
    }

    /// Returns how many messages without a failure it takes to pass.
    pub fn messages_to_pass(&self) -> u64 {
        ((1.0 - self.pass_confidence).ln() / (-self.limit).ln_1p()).ceil() as u64
    }
}

//! The names of this crate's metrics.

use crate::RejectReason;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use onceward_resilience::Outcome;

/// Calls made, by destination and outcome.
const CALLS: &str = "onceward_outbound_calls_total";
/// Calls rejected, by destination and reason.
const REJECTED: &str = "onceward_outbound_rejected_total";
/// Breakers that all processes consider open or isolated.
const OPEN: &str = "onceward_breakers_open";

/// Breakers by destination and state. A credential is never a label.
pub const STATE: &str = "onceward_breaker_state";
/// The time for which breakers were not closed, by destination.
pub const OPEN_SECONDS: &str = "onceward_breaker_open_seconds_total";

/// The breakers of a destination, as this process sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BreakerCounts {
    pub closed: usize,
    pub open: usize,
    pub half_open: usize,
    pub isolated: usize,
}

/// Describes the metrics to the recorder.
pub fn describe() {
    describe_counter!(CALLS, "Calls to other systems, by destination and outcome");
    describe_counter!(REJECTED, "Calls to other systems that were not made, by destination and reason");
    describe_gauge!(OPEN, "Breakers that all processes consider open or isolated");
    describe_gauge!(STATE, "Breakers of a destination by state, one for each credential, as this process sees them");
    describe_counter!(
        OPEN_SECONDS,
        "Seconds for which breakers of a destination were open or isolated, added up over its breakers"
    );
}

pub(crate) fn called(destination: &str, outcome: Outcome) {
    let outcome = match outcome {
        Outcome::Success => "success",
        Outcome::Failure => "failure",
        Outcome::Throttled { .. } => "throttled",
        Outcome::Ignored => "ignored",
        Outcome::Unknown => "unknown",
    };
    counter!(CALLS, "destination" => destination.to_owned(), "outcome" => outcome).increment(1);
}

pub(crate) fn rejected(destination: &str, why: RejectReason) {
    let reason = match why {
        RejectReason::BreakerOpen => "breaker",
        RejectReason::ProbeFailed => "probe",
        RejectReason::Isolated => "isolated",
        RejectReason::BulkheadFull => "bulkhead",
        RejectReason::BudgetEmpty => "budget",
    };
    counter!(REJECTED, "destination" => destination.to_owned(), "reason" => reason).increment(1);
}

pub(crate) fn open_breakers(count: usize) {
    gauge!(OPEN).set(count as f64);
}

/// Reports the breakers of a destination, and for how many seconds they were in these states.
pub(crate) fn breakers(destination: &str, counts: BreakerCounts, seconds: u64) {
    let BreakerCounts { closed, open, half_open, isolated } = counts;
    for (state, count) in [("closed", closed), ("open", open), ("half_open", half_open), ("isolated", isolated)] {
        gauge!(STATE, "destination" => destination.to_owned(), "state" => state).set(count as f64);
    }
    let open_seconds = seconds.saturating_mul((open + isolated) as u64);
    counter!(OPEN_SECONDS, "destination" => destination.to_owned()).increment(open_seconds);
}

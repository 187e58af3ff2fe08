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

/// Describes the metrics to the recorder.
pub fn describe() {
    describe_counter!(CALLS, "Calls to other systems, by destination and outcome");
    describe_counter!(REJECTED, "Calls to other systems that were not made, by destination and reason");
    describe_gauge!(OPEN, "Breakers that all processes consider open or isolated");
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

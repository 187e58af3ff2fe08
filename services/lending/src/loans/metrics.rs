//! The latency of asynchronous loan creation.

use jiff::Timestamp;
use metrics::{describe_histogram, histogram};
use onceward::Tx;

/// The time from the acceptance of the command to the commit of the loan and of its `loan.created` event.
pub(crate) const CREATE_LATENCY_MS: &str = "lending_loan_create_latency_ms";

/// Describes the metric.
pub(crate) fn describe() {
    describe_histogram!(
        CREATE_LATENCY_MS,
        "Milliseconds from when the command to create a loan was accepted to the commit of its loan.created event"
    );
}

/// Records that a loan was created by a command accepted at `accepted_at`.
pub(crate) fn created(tx: &mut Tx, accepted_at: Timestamp) {
    tx.after_commit(move || {
        let took_us = Timestamp::now().as_microsecond() - accepted_at.as_microsecond();
        histogram!(CREATE_LATENCY_MS).record(took_us.max(0) as f64 / 1000.0);
    });
}

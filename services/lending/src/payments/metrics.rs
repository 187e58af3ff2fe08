//! The metrics of the pipeline. Their names are fixed for compatibility.
//!
//! Each changes with the commit of what it counts: work that is rolled back, or repeated after another message of the
//! batch failed, counts once. `payments_outbox_published_total` is counted by the publisher, see [`PUBLISHED`].

use super::rules::FailureReason;
use crate::topology::exchanges;
use jiff::Timestamp;
use metrics::{counter, describe_counter, describe_histogram, histogram};
use onceward::{PublishCounter, Tx};

/// Payment events that the bus has confirmed.
pub(crate) const PUBLISHED: PublishCounter =
    PublishCounter { exchange: exchanges::PAYMENT_EVENTS, metric: "payments_outbox_published_total" };
/// The time from the receipt of a payment to the commit of its posting.
pub(crate) const E2E_LATENCY_MS: &str = "payments_e2e_latency_ms";

const RECEIVED: &str = "payments_received_total";
const DUPLICATE: &str = "payments_duplicate_total";
const VALIDATED: &str = "payments_validated_total";
const POSTED: &str = "payments_posted_total";
const FAILED: &str = "payments_failed_total";
const VALIDATION_LATENCY_MS: &str = "payments_validation_latency_ms";
const POSTING_LATENCY_MS: &str = "payments_posting_latency_ms";

/// Describes all metrics.
pub(crate) fn describe() {
    describe_counter!(RECEIVED, "Payments received, by provider and method");
    describe_counter!(DUPLICATE, "Payments that were reported again and ignored");
    describe_counter!(VALIDATED, "Payments validated, by result and, for failures, by reason");
    describe_counter!(POSTED, "Payments posted to the ledger");
    describe_counter!(FAILED, "Payments that failed validation or that the loan's books refused, by reason");
    describe_counter!(PUBLISHED.metric, "Payment events confirmed by the bus");
    describe_histogram!(
        VALIDATION_LATENCY_MS,
        "Milliseconds from the receipt of a payment to the commit of its validation"
    );
    describe_histogram!(
        POSTING_LATENCY_MS,
        "Milliseconds from the validation of a payment to the commit of its posting"
    );
    describe_histogram!(E2E_LATENCY_MS, "Milliseconds from the receipt of a payment to the commit of its posting");
}

pub(crate) fn received(tx: &mut Tx, provider: &'static str, method: &'static str) {
    tx.after_commit(move || counter!(RECEIVED, "provider" => provider, "method" => method).increment(1));
}

pub(crate) fn duplicate(tx: &mut Tx) {
    tx.after_commit(|| counter!(DUPLICATE).increment(1));
}

pub(crate) fn validated(tx: &mut Tx, outcome: Result<(), FailureReason>, received_at: Timestamp) {
    tx.after_commit(move || {
        match outcome {
            Ok(()) => counter!(VALIDATED, "result" => "ok").increment(1),
            Err(reason) => {
                counter!(VALIDATED, "result" => "fail", "reason" => reason.as_str()).increment(1);
                counter!(FAILED, "reason" => reason.as_str()).increment(1);
            }
        }
        histogram!(VALIDATION_LATENCY_MS).record(ms_since(received_at));
    });
}

/// Records that a validated payment failed after all.
pub(crate) fn refused(tx: &mut Tx) {
    tx.after_commit(|| counter!(FAILED, "reason" => FailureReason::PostingRefused.as_str()).increment(1));
}

pub(crate) fn posted(tx: &mut Tx, received_at: Timestamp, validated_at: Timestamp) {
    tx.after_commit(move || {
        counter!(POSTED).increment(1);
        histogram!(POSTING_LATENCY_MS).record(ms_since(validated_at));
        histogram!(E2E_LATENCY_MS).record(ms_since(received_at));
    });
}

fn ms_since(from: Timestamp) -> f64 {
    (Timestamp::now().as_microsecond() - from.as_microsecond()).max(0) as f64 / 1000.0
}

//! The figures of the pipeline, by the names that the specification gives them.

use super::rules::Reason;
use jiff::Timestamp;
use metrics::{counter, histogram};

pub(crate) fn received(provider: &'static str, method: &'static str) {
    counter!("payments_received_total", "provider" => provider, "method" => method).increment(1);
}

pub(crate) fn duplicate() {
    counter!("payments_duplicate_total").increment(1);
}

/// Milliseconds are counted from when the payment was received.
pub(crate) fn validated(outcome: Result<(), Reason>, received_at: Timestamp, now: Timestamp) {
    match outcome {
        Ok(()) => counter!("payments_validated_total", "result" => "ok").increment(1),
        Err(reason) => {
            let labels = [("result", "fail"), ("reason", reason.as_str())];
            counter!("payments_validated_total", &labels).increment(1);
        }
    }
    histogram!("payments_validation_latency_ms").record(elapsed_ms(received_at, now));
}

/// Milliseconds are counted from when the payment was found good.
pub(crate) fn posting_took(validated_at: Timestamp, now: Timestamp) {
    histogram!("payments_posting_latency_ms").record(elapsed_ms(validated_at, now));
}

/// A payment's posting was seen on the bus; milliseconds are counted from when it was received to when it was posted.
pub(crate) fn posted(received_at: Option<Timestamp>, posted_at: Timestamp) {
    counter!("payments_posted_total").increment(1);
    if let Some(received_at) = received_at {
        histogram!("payments_e2e_latency_ms").record(elapsed_ms(received_at, posted_at));
    }
}

pub(crate) fn failed(reason: &str) {
    counter!("payments_failed_total", "reason" => reason.to_owned()).increment(1);
}

/// A fact left the outbox and was seen on the bus.
pub(crate) fn outbox_published() {
    counter!("payments_outbox_published_total").increment(1);
}

fn elapsed_ms(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_microsecond() - from.as_microsecond()).max(0) as f64 / 1000.0
}

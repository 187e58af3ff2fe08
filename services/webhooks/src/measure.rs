//! The metrics of this service.

use crate::{client::AttemptResult, store};
use jiff::Timestamp;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use onceward::Db;

/// Attempts, by result.
pub const ATTEMPTS: &str = "webhooks_attempts_total";
/// Settled deliveries, by result.
pub const DELIVERIES: &str = "webhooks_deliveries_total";
/// How long endpoints take to respond.
pub const ATTEMPT_MS: &str = "webhooks_attempt_ms";
/// Time from an event's fan-out to its endpoint's acceptance.
pub const LATENCY_MS: &str = "webhooks_delivery_latency_ms";
/// Deliveries by state.
pub const BACKLOG: &str = "webhooks_deliveries";
/// Endpoints by state.
pub const ENDPOINTS: &str = "webhooks_endpoints";
/// Endpoints that were disabled because they failed.
pub const DISABLED: &str = "webhooks_endpoints_disabled_total";

pub(crate) fn describe() {
    describe_counter!(ATTEMPTS, "Requests to webhook endpoints, by result");
    describe_counter!(DELIVERIES, "Settled webhook deliveries, by result");
    describe_histogram!(ATTEMPT_MS, "Milliseconds that webhook endpoints take to respond, by result");
    describe_histogram!(LATENCY_MS, "Milliseconds from the fan-out of an event until its endpoint accepts it");
    describe_gauge!(BACKLOG, "Webhook deliveries by state (counted up to 10000)");
    describe_gauge!(ENDPOINTS, "Webhook endpoints by state (counted up to 10000)");
    describe_counter!(DISABLED, "Webhook endpoints that were disabled because they failed");
}

pub(crate) fn record_attempt(attempt: &AttemptResult) {
    let result = match (attempt.is_success(), attempt.status) {
        (true, _) => "ok",
        (false, Some(_)) => "refused",
        (false, None) => "no_answer",
    };
    counter!(ATTEMPTS, "result" => result).increment(1);
    histogram!(ATTEMPT_MS, "result" => result).record(attempt.duration.as_secs_f64() * 1000.0);
}

pub(crate) fn record_delivered(recorded_at: Timestamp, now: Timestamp) {
    counter!(DELIVERIES, "result" => "delivered").increment(1);
    let waited = (now.as_microsecond() - recorded_at.as_microsecond()).max(0);
    histogram!(LATENCY_MS).record(waited as f64 / 1000.0);
}

pub(crate) fn record_failed() {
    counter!(DELIVERIES, "result" => "failed").increment(1);
}

pub(crate) fn record_disabled() {
    counter!(DISABLED).increment(1);
}

pub(crate) async fn sample(db: Db) {
    match store::count_by_state(&db).await {
        Ok(counts) => {
            for (what, state, count) in counts {
                let name = if what == "endpoints" { ENDPOINTS } else { BACKLOG };
                gauge!(name, "state" => state).set(count as f64);
            }
        }
        Err(error) => {
            tracing::warn!(%error, "counting webhook deliveries and endpoints failed; their metrics are stale")
        }
    }
}

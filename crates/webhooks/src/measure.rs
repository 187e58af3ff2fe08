//! The figures of this service.

use crate::{client::Answer, store};
use jiff::Timestamp;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use onceward::Db;

/// Attempts, by result.
pub const ATTEMPTS: &str = "webhooks_attempts_total";
/// Deliveries that are settled, by result.
pub const DELIVERIES: &str = "webhooks_deliveries_total";
/// How long endpoints take to answer.
pub const ATTEMPT_MS: &str = "webhooks_attempt_ms";
/// From when an event was fanned out to when its endpoint took it.
pub const LATENCY_MS: &str = "webhooks_delivery_latency_ms";
/// Deliveries by state.
pub const BACKLOG: &str = "webhooks_deliveries";
/// Endpoints by state.
pub const ENDPOINTS: &str = "webhooks_endpoints";
/// Endpoints that were disabled because they fail.
pub const DISABLED: &str = "webhooks_endpoints_disabled_total";

pub(crate) fn describe() {
    describe_counter!(ATTEMPTS, "Requests to webhook endpoints, by result");
    describe_counter!(DELIVERIES, "Webhook deliveries that are settled, by result");
    describe_histogram!(ATTEMPT_MS, "Milliseconds that webhook endpoints take to answer, by result");
    describe_histogram!(LATENCY_MS, "Milliseconds from when an event was fanned out to when its endpoint took it");
    describe_gauge!(BACKLOG, "Webhook deliveries by state (counted up to 10000)");
    describe_gauge!(ENDPOINTS, "Webhook endpoints by state (counted up to 10000)");
    describe_counter!(DISABLED, "Webhook endpoints that were disabled because they failed");
}

pub(crate) fn attempted(answer: &Answer) {
    let result = match (answer.is_success(), answer.status) {
        (true, _) => "ok",
        (false, Some(_)) => "refused",
        (false, None) => "no_answer",
    };
    counter!(ATTEMPTS, "result" => result).increment(1);
    histogram!(ATTEMPT_MS, "result" => result).record(answer.took.as_secs_f64() * 1000.0);
}

pub(crate) fn delivered(recorded_at: Timestamp, now: Timestamp) {
    counter!(DELIVERIES, "result" => "delivered").increment(1);
    let waited = (now.as_microsecond() - recorded_at.as_microsecond()).max(0);
    histogram!(LATENCY_MS).record(waited as f64 / 1000.0);
}

pub(crate) fn failed() {
    counter!(DELIVERIES, "result" => "failed").increment(1);
}

pub(crate) fn disabled() {
    counter!(DISABLED).increment(1);
}

pub(crate) async fn sample(db: Db) {
    match store::figures(&db).await {
        Ok(figures) => {
            for (what, state, count) in figures {
                let name = if what == "endpoints" { ENDPOINTS } else { BACKLOG };
                gauge!(name, "state" => state).set(count as f64);
            }
        }
        Err(error) => tracing::warn!(%error, "the figures of webhooks are not available"),
    }
}

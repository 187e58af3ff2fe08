//! The metrics of this service. The names of the first four are fixed for compatibility with existing dashboards.

use crate::{emails::store as emails, slo::OBJECTIVE_MS};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use onceward::Db;

/// Requests that were accepted, by class.
pub const REQUESTS: &str = "crm_email_requests_total";
/// Mails that a provider has taken, by class.
pub const SENT: &str = "crm_email_sent_total";
/// Failed attempts and mails that cannot be sent, by error code.
pub const FAILED: &str = "crm_email_failed_total";
/// The age of the oldest mail that is not finished.
pub const QUEUE_LAG_SECONDS: &str = "crm_email_queue_lag_seconds";
/// Requests that were denied, by reason.
pub const DENIED: &str = "crm_email_denied_total";
/// Recipients that were suppressed when the mail was about to be sent, by reason.
pub const SUPPRESSED: &str = "crm_email_suppressed_total";
/// Recipients whose outcome is unknown.
pub const UNKNOWN: &str = "crm_email_unknown_total";
/// Milliseconds from the request to the provider's acceptance.
pub const DURATION_MS: &str = "crm_email_duration_ms";
/// Sent mails, by whether they were sent in time.
pub const OBJECTIVE: &str = "crm_email_objective_total";
/// Calls of providers, by provider and outcome.
pub const CALLS: &str = "crm_email_provider_calls_total";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "Requested mails, by class");
    describe_counter!(SENT, "Mails that a provider has taken, by class");
    describe_counter!(FAILED, "Failed attempts and mails that cannot be sent, by error code");
    describe_gauge!(QUEUE_LAG_SECONDS, "Age of the oldest mail that is neither sent nor given up, in seconds");
    describe_counter!(DENIED, "Requests for mails that were denied, by reason");
    describe_counter!(SUPPRESSED, "Recipients that were suppressed when their mail was about to be sent, by reason");
    describe_counter!(UNKNOWN, "Recipients of whom it is unknown whether the provider has their mail");
    describe_histogram!(DURATION_MS, "Milliseconds from the request of a mail to the provider's acceptance");
    describe_counter!(OBJECTIVE, "Sent mails, by whether they were sent within five minutes of their request");
    describe_counter!(CALLS, "Calls of mail providers, by provider and outcome");
}

pub(crate) fn requested(class: &'static str) {
    counter!(REQUESTS, "class" => class).increment(1);
}

pub(crate) fn denied(reason: &'static str) {
    counter!(DENIED, "reason" => reason).increment(1);
}

pub(crate) fn sent(class: &'static str, duration_ms: u64) {
    counter!(SENT, "class" => class).increment(1);
    histogram!(DURATION_MS).record(duration_ms as f64);
    let met = if duration_ms <= OBJECTIVE_MS { "true" } else { "false" };
    counter!(OBJECTIVE, "met" => met).increment(1);
}

pub(crate) fn failed(error_code: &'static str) {
    counter!(FAILED, "error_code" => error_code).increment(1);
}

pub(crate) fn suppressed(reason: &'static str) {
    counter!(SUPPRESSED, "reason" => reason).increment(1);
}

pub(crate) fn unknown() {
    counter!(UNKNOWN).increment(1);
}

pub(crate) fn called(provider: &'static str, outcome: &'static str) {
    counter!(CALLS, "provider" => provider, "outcome" => outcome).increment(1);
}

pub(crate) async fn sample(db: Db) {
    match emails::queue_lag_seconds(&db).await {
        Ok(seconds) => gauge!(QUEUE_LAG_SECONDS).set(seconds),
        Err(error) => tracing::warn!(%error, "reading the age of the oldest mail failed; its metric is stale"),
    }
}

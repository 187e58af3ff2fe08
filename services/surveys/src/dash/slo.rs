//! The service-level objective for quotas.

use super::store;
use metrics::{describe_gauge, gauge};
use onceward::{
    Db,
    slo::{Alert, Severity, Slo},
};

const OVERFILL: &str = "surveys_quota_overfill";

pub(super) fn describe_metrics() {
    describe_gauge!(OVERFILL, "Places taken beyond target and allowed overfill, over all buckets");
}

/// Updates the gauge; called just before metrics are collected.
pub(super) async fn sample(db: Db) {
    match store::count_overfill(&db).await {
        Ok(places) => gauge!(OVERFILL).set(places as f64),
        Err(error) => tracing::warn!(%error, "reading the quota overfill failed; the gauge keeps its last value"),
    }
}

pub(super) fn overfill_slo() -> Slo {
    Slo::new("quota-overfill", "No bucket ever holds more places than its target plus its allowed overfill").alert(Alert {
        alert: "SurveysQuotaOverfill",
        expr: format!("max({OVERFILL}) > 0"),
        for_s: 0,
        severity: Severity::Page,
        summary: "A quota bucket holds more places than it allows.",
        runbook: "The constraint quota_never_overfills of surveys.quota_bucket prevents this: check whether it still exists and \
                  is valid. Pause the survey (`POST /api/surveys/ID/pause`) until you know what bypassed it.",
    })
}

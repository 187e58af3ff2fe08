//! What surveys promise about quotas.

use super::store;
use metrics::{describe_gauge, gauge};
use onceward::{
    Db,
    slo::{Alert, Severity, Slo},
};

const OVERFILL: &str = "surveys_quota_overfill";

pub(crate) fn describe() {
    describe_gauge!(OVERFILL, "Places taken beyond target and allowed overfill, over all buckets");
}

/// Read just before it is asked for.
pub(crate) async fn sample(db: Db) {
    match store::overfill(&db).await {
        Ok(places) => gauge!(OVERFILL).set(places as f64),
        Err(error) => tracing::warn!(%error, "whether quotas are overfilled is not known"),
    }
}

pub(crate) fn overfill() -> Slo {
    Slo::new("quota-overfill", "No bucket ever holds more places than its target and its allowed overfill").alert(Alert {
        alert: "SurveysQuotaOverfill",
        expr: format!("max({OVERFILL}) > 0"),
        for_s: 0,
        severity: Severity::Page,
        summary: "A quota bucket holds more places than it may.",
        runbook: "The constraint quota_never_overfills of surveys.quota_bucket makes this impossible: look whether it is still \
                  there and valid. Pause the survey (`POST /api/surveys/ID/pause`) until it is known who wrote past it.",
    })
}

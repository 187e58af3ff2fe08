//! Liveness and readiness.
//!
//! Live means only that the process responds: an orchestrator restarts a process that is not live, and a restart does
//! not repair a lost database. Ready means that every named check passes.

use crate::AppState;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::future::{BoxFuture, join_all};
use onceward_db::{Db, RequiredTable, requirements, writes};
use serde::Serialize;
use std::{future::Future, sync::Arc, time::Duration};

const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// A check and whether traffic depends on it.
#[derive(Clone)]
struct NamedCheck {
    name: Arc<str>,
    required: bool,
    check: Check,
}

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The checks that must pass for this instance to receive traffic.
#[derive(Clone, Default)]
pub struct Readiness {
    checks: Vec<NamedCheck>,
}

impl Readiness {
    /// Creates an empty set of checks, which is always ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check with a time limit of two seconds. Its error explains the failure to an operator.
    pub fn check<F, Fut>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push(NamedCheck { name: name.into(), required: true, check: Arc::new(move || Box::pin(check())) });
        self
    }

    /// Adds a check whose failure is reported but does not affect readiness, because requests do not depend on it.
    pub fn advisory<F, Fut>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push(NamedCheck { name: name.into(), required: false, check: Arc::new(move || Box::pin(check())) });
        self
    }

    /// Adds the check `database`: every column of `required` is visible, or the missing one is named, and the server
    /// accepts writes.
    pub fn database(self, db: Db, required: Vec<RequiredTable>) -> Self {
        let required: Arc<[RequiredTable]> = required.into();
        self.check("database", move || {
            let (db, required) = (db.clone(), required.clone());
            async move {
                let missing = requirements::missing(&db, &required).await.map_err(|error| error.to_string())?;
                if !missing.is_empty() {
                    return Err(format!("missing: {}; run `onceward migrate`", missing.join(", ")));
                }
                writes::check(&db).await.map_err(|error| error.to_string())
            }
        })
    }

    /// Runs all checks concurrently.
    pub async fn report(&self) -> ReadinessReport {
        self.report_within(CHECK_TIMEOUT).await
    }

    async fn report_within(&self, timeout: Duration) -> ReadinessReport {
        let checks = join_all(self.checks.iter().map(|NamedCheck { name, required, check }| async move {
            let outcome = tokio::time::timeout(timeout, check())
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {timeout:?}")));
            CheckResult { name: name.to_string(), required: *required, ok: outcome.is_ok(), detail: outcome.err() }
        }))
        .await;
        let status = match checks.iter().filter(|check| !check.ok).map(|check| check.required).max() {
            None => "ready",
            Some(false) => "degraded",
            Some(true) => "not ready",
        };
        ReadinessReport { status, checks }
    }
}

/// The outcome of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct ReadinessReport {
    /// `ready`, `degraded` (only checks that requests do not need fail) or `not ready`.
    pub status: &'static str,
    /// One entry per check, in the order they were added.
    pub checks: Vec<CheckResult>,
}

impl ReadinessReport {
    /// Returns whether every check that requests need passes.
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.ok || !check.required)
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Whether requests need it.
    pub required: bool,
    /// Whether it passed.
    pub ok: bool,
    /// The reason for the failure.
    pub detail: Option<String>,
}

pub(crate) async fn live() -> Response {
    Json(serde_json::json!({"status": "alive"})).into_response()
}

pub(crate) async fn ready(State(state): State<AppState>) -> Response {
    let report = state.readiness.report().await;
    let status = if report.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_failing_check_is_named_and_the_others_still_run() {
        let report = Readiness::new()
            .check("database", || async { Err("connection refused".to_owned()) })
            .check("disk", || async { Ok(()) })
            .report()
            .await;
        assert!(!report.is_ready());
        assert_eq!(report.checks[0].name, "database");
        assert_eq!(report.checks[0].detail.as_deref(), Some("connection refused"));
        assert!(report.checks[1].ok);
    }

    #[tokio::test]
    async fn a_failing_advisory_check_degrades_but_stays_ready() {
        let report = Readiness::new().advisory("relay", || async { Err("the bus is down".to_owned()) }).report().await;
        assert_eq!((report.status, report.is_ready()), ("degraded", true));
    }

    #[tokio::test]
    async fn a_check_that_hangs_fails_after_the_time_limit() {
        let hangs = Readiness::new().check("broker", std::future::pending);
        assert!(!hangs.report_within(Duration::from_millis(1)).await.is_ready());
    }
}

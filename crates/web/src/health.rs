//! Is the process alive, and may it take traffic?
//!
//! Alive means only that it answers: an orchestrator restarts what is not alive, and a restart does not mend a lost
//! database. Ready means that every named check holds.

use crate::AppState;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::future::{BoxFuture, join_all};
use onceward_db::{Db, RequiredTable, requirements};
use serde::Serialize;
use std::{future::Future, sync::Arc, time::Duration};

const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// A check and whether traffic depends on it.
#[derive(Clone)]
struct Named {
    name: Arc<str>,
    required: bool,
    check: Check,
}

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What must hold for this instance to take traffic.
#[derive(Clone, Default)]
pub struct Readiness {
    checks: Vec<Named>,
}

impl Readiness {
    /// No checks: always ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check. Its error says what is wrong, for an operator; it gets two seconds.
    pub fn check<F, Fut>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push(Named { name: name.into(), required: true, check: Arc::new(move || Box::pin(check())) });
        self
    }

    /// Adds a check whose failure is shown but keeps nobody from taking traffic: requests do not need what it looks at.
    pub fn advisory<F, Fut>(mut self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.checks.push(Named { name: name.into(), required: false, check: Arc::new(move || Box::pin(check())) });
        self
    }

    /// Adds the check `database`: every column of `required` can be seen, and a missing one is named.
    pub fn database(self, db: Db, required: Vec<RequiredTable>) -> Self {
        let required: Arc<[RequiredTable]> = required.into();
        self.check("database", move || {
            let (db, required) = (db.clone(), required.clone());
            async move {
                match requirements::missing(&db, &required).await {
                    Ok(missing) if missing.is_empty() => Ok(()),
                    Ok(missing) => Err(format!("missing: {}; run `onceward migrate`", missing.join(", "))),
                    Err(error) => Err(error.to_string()),
                }
            }
        })
    }

    /// Runs every check at once.
    pub async fn report(&self) -> Report {
        self.report_within(CHECK_TIMEOUT).await
    }

    async fn report_within(&self, timeout: Duration) -> Report {
        let checks = join_all(self.checks.iter().map(|Named { name, required, check }| async move {
            let outcome = tokio::time::timeout(timeout, check())
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {timeout:?}")));
            CheckReport { name: name.to_string(), required: *required, ok: outcome.is_ok(), detail: outcome.err() }
        }))
        .await;
        let status = match checks.iter().filter(|check| !check.ok).map(|check| check.required).max() {
            None => "ready",
            Some(false) => "degraded",
            Some(true) => "not ready",
        };
        Report { status, checks }
    }
}

/// The outcome of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `ready`, `degraded` (something is wrong that requests do not need) or `not ready`.
    pub status: &'static str,
    /// One entry per check, in the order they were added.
    pub checks: Vec<CheckReport>,
}

impl Report {
    /// Whether everything holds that requests need.
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.ok || !check.required)
    }
}

/// The outcome of one check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Its name.
    pub name: String,
    /// Whether requests need it.
    pub required: bool,
    /// Whether it holds.
    pub ok: bool,
    /// What is wrong.
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
    async fn what_requests_do_not_need_degrades_but_does_not_stop() {
        let report = Readiness::new().advisory("relay", || async { Err("the bus is down".to_owned()) }).report().await;
        assert_eq!((report.status, report.is_ready()), ("degraded", true));
    }

    #[tokio::test]
    async fn a_check_that_hangs_fails() {
        let hangs = Readiness::new().check("broker", std::future::pending);
        assert!(!hangs.report_within(Duration::from_millis(1)).await.is_ready());
    }
}

//! The components of the platform that handlers and extractors use.

use crate::{Authenticator, MetricsHandle, Problem, Readiness, WebConfig};
use axum::{
    extract::FromRequestParts,
    http::{Extensions, request::Parts},
};
use onceward_db::Db;
use onceward_envelope::SchemaRegistry;
use onceward_supervisor::Supervisor;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The components that a router is built with. Each is a handle, so a clone is cheap. A handler that needs one takes an
/// `AppState` as a parameter; the state of its own service is axum's `State`.
#[derive(Clone)]
pub struct AppState {
    /// The database.
    pub db: Db,
    /// The contracts that request bodies are checked against.
    pub schemas: SchemaRegistry,
    /// Converts tokens to callers.
    pub auth: Arc<Authenticator>,
    /// Limits and timeouts.
    pub config: Arc<WebConfig>,
    /// The checks that must pass for this instance to receive traffic.
    pub readiness: Readiness,
    /// The source of `/metrics`.
    pub metrics: MetricsHandle,
    /// Cancelled when this instance must stop: streaming responses end then.
    pub stopping: CancellationToken,
    /// Restarts the long-lived tasks that handlers start, and reports their failures.
    pub supervisor: Supervisor,
}

impl AppState {
    /// Combines the components.
    pub fn new(
        db: Db,
        schemas: SchemaRegistry,
        auth: Authenticator,
        config: WebConfig,
        readiness: Readiness,
        metrics: MetricsHandle,
    ) -> Self {
        Self {
            db,
            schemas,
            auth: Arc::new(auth),
            config: Arc::new(config),
            readiness,
            metrics,
            stopping: CancellationToken::new(),
            supervisor: Supervisor::new(),
        }
    }

    /// Returns the same state with `stopping` as its stop signal.
    pub fn stopped_by(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }

    /// Returns the same state with the process's own `supervisor`, whose failures readiness reports.
    pub fn supervised_by(self, supervisor: Supervisor) -> Self {
        Self { supervisor, ..self }
    }
}

impl AppState {
    /// Returns the state that the route's layer stored in the request. Fails if the request was not routed by `Routes`.
    pub(crate) fn of(extensions: &Extensions) -> Result<&Arc<Self>, Problem> {
        extensions
            .get()
            .ok_or_else(|| Problem::internal("the handler's route was not declared with Routes; declare it there"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AppState {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.extensions).map(|state| Self::clone(state))
    }
}

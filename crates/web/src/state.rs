//! What every handler can reach through axum's `State`.

use crate::{Authenticator, MetricsHandle, Readiness, WebConfig};
use onceward_db::Db;
use onceward_envelope::SchemaRegistry;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The parts a router is built with. Every part is a handle, so a clone is cheap.
#[derive(Clone)]
pub struct AppState {
    /// The database.
    pub db: Db,
    /// The contracts that request bodies are checked against.
    pub schemas: SchemaRegistry,
    /// Turns tokens into callers.
    pub auth: Arc<Authenticator>,
    /// Limits and times.
    pub config: Arc<WebConfig>,
    /// What must hold for this instance to take traffic.
    pub readiness: Readiness,
    /// Where `/metrics` reads from.
    pub metrics: MetricsHandle,
    /// Fires when this instance is told to stop: answers that would go on and on end then.
    pub stopping: CancellationToken,
}

impl AppState {
    /// Puts the parts together.
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
        }
    }

    /// The same, to be told to stop by `stopping`.
    pub fn stopped_by(self, stopping: CancellationToken) -> Self {
        Self { stopping, ..self }
    }
}

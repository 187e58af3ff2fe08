//! What keeps one instance standing: a bound on work at once, a bound on time, and panics that end one request only.

use crate::{AppState, Problem, problem::codes};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{any::Any, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// The bounds that the requests of all services share.
#[derive(Clone)]
pub(crate) struct Limits {
    slots: Arc<Semaphore>,
    timeout: Duration,
}

impl Limits {
    pub(crate) fn new(state: &AppState) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(state.config.max_concurrent_requests)),
            timeout: Duration::from_millis(state.config.request_timeout_ms),
        }
    }
}

/// Turns a request away at once when all slots are taken: a queue here would only make everyone time out.
pub(crate) async fn limit(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let Ok(_slot) = limits.slots.try_acquire() else {
        metrics::counter!("http_requests_shed_total").increment(1);
        return Problem::new(codes::OVERLOADED)
            .detail("As many requests as this server takes at once are under way.")
            .retry_after_s(1)
            .into_response();
    };
    match tokio::time::timeout(limits.timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(codes::TIMEOUT)
            .detail("The request was stopped. Repeat it with the same Idempotency-Key: it is done once.")
            .retry_after_s(1)
            .into_response(),
    }
}

/// The panic's message has gone to the process's panic hook; the client learns nothing of it.
pub(crate) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    Problem::internal("a handler panicked").into_response()
}

//! Protects one instance from overload: a limit on concurrent requests, a time limit, and panics that end only one
//! request.

use crate::{AppState, Problem, problem::codes};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{any::Any, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// The limits that the requests of all services share: concurrency and time.
#[derive(Clone)]
pub(crate) struct RequestLimits {
    slots: Arc<Semaphore>,
    timeout: Duration,
}

impl RequestLimits {
    pub(crate) fn new(state: &AppState) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(state.config.max_concurrent_requests)),
            timeout: Duration::from_millis(state.config.request_timeout_ms),
        }
    }
}

/// Rejects a request immediately when all slots are taken: a queue here would only make every request time out.
pub(crate) async fn enforce_limits(State(limits): State<RequestLimits>, request: Request, next: Next) -> Response {
    let Ok(_slot) = limits.slots.try_acquire() else {
        metrics::counter!("http_requests_shed_total").increment(1);
        return Problem::new(codes::OVERLOADED)
            .detail("The server is handling its maximum number of concurrent requests.")
            .retry_after_s(1)
            .into_response();
    };
    match tokio::time::timeout(limits.timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(codes::TIMEOUT)
            .detail("The request exceeded its time limit and was stopped. Repeat it with the same Idempotency-Key: it takes effect once.")
            .retry_after_s(1)
            .into_response(),
    }
}

/// Responds to a panic. Its message has gone to the process's panic hook and is not sent to the client.
pub(crate) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    Problem::internal("a handler panicked").into_response()
}

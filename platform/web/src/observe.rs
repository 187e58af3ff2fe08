//! The outermost layer: ids, a span and metrics for each request, and the completion of problem documents.
//!
//! A span and its log line carry the route's pattern, never the path, the query, a body or a token.

use crate::{Problem, problem::codes};
use axum::{
    body::{Body, to_bytes},
    extract::{FromRequestParts, MatchedPath, Request},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use onceward_envelope::{CorrelationId, TraceContext};
use std::{convert::Infallible, error::Error, time::Instant};
use tracing::{Instrument, Span, field};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Axum's own rejections explain the error in a line or two.
const MAX_PLAIN_BYTES: usize = 1024;

/// The ids of a request: taken from its headers if they are valid, generated otherwise.
#[derive(Clone, Debug)]
pub struct RequestIds {
    /// Links everything that this request causes.
    pub correlation_id: CorrelationId,
    /// The client's own id for this request; the correlation id if it sent none.
    pub request_id: CorrelationId,
    /// This request's span in its trace.
    pub trace: TraceContext,
}

impl RequestIds {
    fn from_headers(headers: &HeaderMap) -> Self {
        let id = |name: HeaderName| CorrelationId::new(headers.get(name)?.to_str().ok()?).ok();
        let request_id = id(X_REQUEST_ID);
        let correlation_id =
            id(X_CORRELATION_ID).or_else(|| request_id.clone()).unwrap_or_else(CorrelationId::generate);
        let trace = caller_trace(headers).map_or_else(TraceContext::new_root, |caller| caller.child());
        Self { request_id: request_id.unwrap_or_else(|| correlation_id.clone()), correlation_id, trace }
    }

    /// Returns the ids that this layer stored in the request, or new ones if the request did not pass through it.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let known = extensions.get::<Self>().cloned();
        known.unwrap_or_else(|| Self::from_headers(&HeaderMap::new()))
    }

    fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in [
            (X_REQUEST_ID, self.request_id.as_str()),
            (X_CORRELATION_ID, self.correlation_id.as_str()),
            (TRACEPARENT, self.trace.traceparent()),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestIds {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// Returns the caller's span that this request belongs to.
fn caller_trace(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    Some(TraceContext::parse(text(&TRACEPARENT)?)?.with_state(text(&TRACESTATE)))
}

/// The outermost layer.
pub(crate) async fn observe(mut request: Request, next: Next) -> Response {
    let mut ids = RequestIds::from_headers(request.headers());
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = method_label(request.method());
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!(
        "request",
        method,
        route,
        correlation_id = ids.correlation_id.as_str(),
        trace_id = field::Empty,
        tenant = field::Empty,
        status = field::Empty,
        latency_ms = field::Empty,
    );
    if let Some(caller) = caller_trace(request.headers()) {
        onceward_messaging::spans::continue_from(&span, &caller);
    }
    if let Some(exported) = onceward_messaging::spans::context_of(&span) {
        ids.trace = exported.with_state(ids.trace.tracestate());
    }
    span.record("trace_id", ids.trace.trace_id());
    request.extensions_mut().insert(ids.clone());

    let started = Instant::now();
    let in_flight = InFlightGuard::enter();
    let response = next.run(request).instrument(span.clone()).await;
    let mut response = complete(response, &path, &ids, &span).await;
    drop(in_flight);

    ids.write(response.headers_mut());
    let latency_ms = started.elapsed().as_secs_f64() * 1000.0;
    record(&span, method, &route, response.status(), latency_ms);
    response
}

/// Returns whether the route is polled by machines every few seconds. Its successes are logged at DEBUG.
fn is_probe(route: &str) -> bool {
    route == "/metrics" || route.starts_with("/health/")
}

fn record(span: &Span, method: &'static str, route: &str, status: StatusCode, latency_ms: f64) {
    span.record("status", status.as_u16());
    span.record("latency_ms", latency_ms);
    span.in_scope(|| match is_probe(route) && status.is_success() {
        true => tracing::debug!("request finished"),
        false => tracing::info!("request finished"),
    });
    let route = route.to_owned();
    let status = status.as_str().to_owned();
    metrics::histogram!("http_request_duration_ms", "method" => method, "route" => route.clone()).record(latency_ms);
    metrics::counter!("http_requests_total", "method" => method, "route" => route, "status" => status).increment(1);
}

/// Adds the path and the correlation id to a problem and logs its cause; converts a plain-text rejection to a problem.
async fn complete(response: Response, path: &str, ids: &RequestIds, span: &Span) -> Response {
    let mut response = plain_text_to_problem(response).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    span.in_scope(|| log(&problem));
    let document = problem.document(Some(path), Some(&ids.correlation_id));
    let (mut parts, _) = response.into_parts();
    // The length of the document that is replaced here may already be set.
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(document))
}

fn log(problem: &Problem) {
    let code = problem.code().code;
    match problem.cause() {
        Some(cause) if problem.status().is_server_error() => {
            tracing::error!(code, cause = with_sources(cause), "request failed");
        }
        Some(cause) => tracing::info!(code, cause = with_sources(cause), "request rejected"),
        None => tracing::info!(code, "request rejected"),
    }
}

fn with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// Converts the plain-text rejection of an axum extractor, so that clients see only one kind of error.
async fn plain_text_to_problem(response: Response) -> Response {
    let status = response.status();
    let is_plain =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/plain"));
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || !is_plain || response.extensions().get::<Problem>().is_some() {
        return response;
    }
    let text = to_bytes(response.into_body(), MAX_PLAIN_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let problem = match status.as_u16() {
        404 => Problem::new(codes::NOT_FOUND).detail(text),
        413 => Problem::new(codes::BODY_TOO_LARGE).detail(text),
        415 => Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail(text),
        422 => Problem::new(codes::VALIDATION_FAILED).detail(text),
        400..500 => Problem::new(codes::INVALID_REQUEST).detail(text),
        _ => Problem::internal(text),
    };
    problem.into_response()
}

/// Maps unknown methods to one label, because clients can invent methods and labels must stay bounded.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

/// Counts a request as in flight until it ends, also when its client disconnects.
struct InFlightGuard;

impl InFlightGuard {
    fn enter() -> Self {
        metrics::gauge!("http_requests_in_flight").increment(1.0);
        Self
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        metrics::gauge!("http_requests_in_flight").decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_are_kept_and_missing_or_invalid_ones_are_generated() {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_static("r-1"));
        let ids = RequestIds::from_headers(&headers);
        assert_eq!(ids.correlation_id.as_str(), "r-1");
        headers.insert(X_CORRELATION_ID, HeaderValue::from_static("c-1"));
        let ids = RequestIds::from_headers(&headers);
        assert_eq!((ids.correlation_id.as_str(), ids.request_id.as_str()), ("c-1", "r-1"));
        let generated = RequestIds::from_headers(&HeaderMap::new());
        assert_eq!(generated.correlation_id, generated.request_id);
        let long = HeaderValue::from_str(&"x".repeat(256)).unwrap();
        headers.insert(X_CORRELATION_ID, long);
        assert_eq!(RequestIds::from_headers(&headers).correlation_id.as_str(), "r-1");
    }
}

//! Ids, traces, metrics and logs.

use crate::support::TestApp;
use axum::{body::Body, http::Request};
use parking_lot::Mutex;
use std::{
    io::{self, Write},
    sync::Arc,
};

#[tokio::test]
async fn request_and_trace_ids_are_echoed() {
    let app = TestApp::new();
    let request = Request::get("/health/live")
        .header("x-request-id", "r-1")
        .header("x-correlation-id", "c-1")
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .body(Body::empty())
        .unwrap();
    let response = app.send(request).await;
    assert_eq!(response.header("x-request-id"), "r-1");
    assert_eq!(response.header("x-correlation-id"), "c-1");
    let trace = response.header("traceparent");
    assert!(trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert!(!trace.contains("00f067aa0ba902b7"), "the response has its own span id");
}

#[tokio::test]
async fn invalid_ids_are_replaced_by_generated_ones() {
    let app = TestApp::new();
    let request = Request::get("/health/live")
        .header("x-correlation-id", "x".repeat(300))
        .header("traceparent", "00-nonsense")
        .body(Body::empty())
        .unwrap();
    let response = app.send(request).await;
    assert_eq!(response.header("x-correlation-id").len(), 36);
    assert_eq!(response.header("traceparent").len(), 55);
}

#[tokio::test]
async fn requests_are_counted_by_route_pattern_not_by_path() {
    let app = TestApp::new();
    assert_eq!(app.get("/api/numbers/123456").await.status, 200);
    assert_eq!(app.get("/made/up/path").await.status, 404);
    let metrics = app.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let has = |name: &str, label: &str| metrics.text.lines().any(|line| line.starts_with(name) && line.contains(label));
    assert!(has("http_requests_total{", "route=\"/api/numbers/{number}\""), "{}", metrics.text);
    assert!(has("http_requests_total{", "route=\"unmatched\""));
    assert!(has("http_request_duration_ms_bucket{", "le=\"0.5\""));
    assert!(has("http_requests_in_flight", ""));
    assert!(!metrics.text.contains("123456") && !metrics.text.contains("made/up"));
}

/// Captures the log output.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_carry_ids_and_outcome_but_no_body_query_or_token() {
    let app = TestApp::new();
    // An event first logged while another test runs without a subscriber would stay disabled.
    assert_eq!((app.write("before", "seen").await.status, app.write("before-2", "fail").await.status), (201, 500));
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let mut request = app.write_request("k", "body-secret");
    *request.uri_mut() = "/api/notes?q=query-secret".parse().unwrap();
    request.headers_mut().insert("x-correlation-id", "story-9".parse().unwrap());
    let response = app.send(request).await;
    let failed = app.write("k2", "fail").await;
    drop(guard);
    assert_eq!((response.status, failed.status), (201, 500), "{response:?}");
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let finished = log.lines().find(|line| line.contains("request finished")).unwrap();
    for part in ["story-9", "\"status\":201", "latency_ms", "trace_id", "/api/notes", &app.tenant] {
        assert!(finished.contains(part), "{part} is not in {finished}");
    }
    assert!(log.contains("fails on purpose"), "the cause of a 500 is logged");
    let token = app.token();
    let signature = token.rsplit('.').next().unwrap();
    for secret in ["body-secret", "query-secret", signature, "\"ann\""] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

//! Limits: size, time, concurrent requests, and an unreachable database.

use crate::support::{TestApp, TestConfig, post};
use axum::body::Body;
use futures_util::stream;
use onceward_web::{Readiness, WebConfig};
use std::convert::Infallible;

fn with_config(config: WebConfig) -> TestApp {
    TestApp::with(TestConfig { config, ..TestConfig::default() })
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_with_or_without_a_declared_length() {
    let app = with_config(WebConfig { max_body_bytes: 64, ..WebConfig::default() });
    app.write("k", &"x".repeat(100)).await.is_problem(413, "body-too-large").has_detail("64 bytes");
    let chunks = (0..10).map(|_| Ok::<_, Infallible>("1234567890"));
    let streamed = post("/api/notes", &app.token(), "k", Body::from_stream(stream::iter(chunks)));
    app.send(streamed).await.is_problem(413, "body-too-large");
    let mut declared = app.write_request("k", "x");
    declared.headers_mut().insert("content-length", "1000000".parse().unwrap());
    app.send(declared).await.is_problem(413, "body-too-large");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_stopped_and_rolled_back() {
    let app = with_config(WebConfig { request_timeout_ms: 300, ..WebConfig::default() });
    // The first request only warms the pool, so that the handler uses up the time.
    assert_eq!(app.write("warm", "hello").await.status, 201);
    app.pause.arm();
    let response = app.write("k", "hello").await;
    response.is_problem(503, "timeout");
    assert_eq!(response.header("retry-after"), "1");
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn requests_over_the_concurrency_limit_are_rejected_but_health_responds() {
    let app = with_config(WebConfig { max_concurrent_requests: 1, ..WebConfig::default() });
    app.pause.arm();
    let others = async {
        app.pause.entered().await;
        let shed = app.write("other", "hello").await;
        let health = app.get("/health/live").await;
        app.pause.release();
        (shed, health)
    };
    let (first, (shed, health)) = tokio::join!(app.write("k", "hello"), others);
    assert_eq!(first.status, 201);
    shed.is_problem(503, "overloaded");
    assert_eq!(shed.header("retry-after"), "1");
    assert_eq!(health.status, 200);
}

#[tokio::test]
async fn an_unreachable_database_is_a_503_with_retry_after_and_a_named_readiness_failure() {
    let unreachable = "postgres://nobody@127.0.0.1:1/nowhere";
    let app = TestApp::with(TestConfig { database_url: Some(unreachable), ..TestConfig::default() });
    let response = app.write("k", "hello").await;
    response.is_problem(503, "database-unavailable");
    let seconds: u32 = response.header("retry-after").parse().unwrap();
    assert!((1..=5).contains(&seconds));
    app.get("/api/notes").await.is_problem(503, "database-unavailable");

    let readiness =
        Readiness::new().check("clock", || async { Ok(()) }).database(app.db.clone(), onceward_web::REQUIRED.to_vec());
    let app = TestApp::with(TestConfig { readiness, ..TestConfig::default() });
    let response = app.get("/health/ready").await;
    assert_eq!((response.status, response.body["status"].as_str()), (503, Some("not ready")));
    assert_eq!(response.body["checks"][0]["ok"], true);
    assert_eq!(response.body["checks"][1]["name"], "database");
    assert_eq!(response.body["checks"][1]["ok"], false);
    assert_eq!(app.get("/health/live").await.status, 200);
}

#[tokio::test]
async fn a_missing_column_fails_readiness_by_name() {
    let database = TestApp::new();
    let mut required = onceward_web::REQUIRED.to_vec();
    let whole = Readiness::new().database(database.db.clone(), required.clone());
    assert!(whole.report().await.is_ready());
    required.push(onceward_db::RequiredTable { table: "web_test.note", columns: &["text", "colour"] });
    let report = Readiness::new().database(database.db.clone(), required).report().await;
    let detail = report.checks[0].detail.as_deref().unwrap();
    assert!(detail.contains("web_test.note.colour") && !detail.contains("note.text"), "{detail}");
}

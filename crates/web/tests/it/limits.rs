//! Bounds: size, time, work at once, and a database that is away.

use crate::support::{App, Setup, post};
use axum::body::Body;
use futures_util::stream;
use onceward_web::{Readiness, WebConfig};
use std::convert::Infallible;

fn with_config(config: WebConfig) -> App {
    App::with(Setup { config, ..Setup::default() })
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_whether_it_says_its_length_or_not() {
    let app = with_config(WebConfig { max_body_bytes: 64, ..WebConfig::default() });
    app.write("k", &"x".repeat(100)).await.is_problem(413, "body-too-large").says("64 bytes");
    let chunks = (0..10).map(|_| Ok::<_, Infallible>("1234567890"));
    let streamed = post("/api/notes", &app.token(), "k", Body::from_stream(stream::iter(chunks)));
    app.send(streamed).await.is_problem(413, "body-too-large");
    let mut declared = app.write_request("k", "x");
    declared.headers_mut().insert("content-length", "1000000".parse().unwrap());
    app.send(declared).await.is_problem(413, "body-too-large");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_stopped_and_undone() {
    let app = with_config(WebConfig { request_timeout_ms: 300, ..WebConfig::default() });
    // The first request only warms the pool, so that the time is used by the handler.
    assert_eq!(app.write("warm", "hello").await.status, 201);
    app.hold.arm();
    let answer = app.write("k", "hello").await;
    answer.is_problem(503, "timeout");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn more_requests_than_slots_are_turned_away_but_health_answers() {
    let app = with_config(WebConfig { max_concurrent_requests: 1, ..WebConfig::default() });
    app.hold.arm();
    let others = async {
        app.hold.entered().await;
        let shed = app.write("other", "hello").await;
        let health = app.get("/health/live").await;
        app.hold.release();
        (shed, health)
    };
    let (first, (shed, health)) = tokio::join!(app.write("k", "hello"), others);
    assert_eq!(first.status, 201);
    shed.is_problem(503, "overloaded");
    assert_eq!(shed.header("retry-after"), "1");
    assert_eq!(health.status, 200);
}

#[tokio::test]
async fn a_database_that_is_away_is_a_503_with_retry_after_and_readiness_names_it() {
    let away = "postgres://nobody@127.0.0.1:1/nowhere";
    let app = App::with(Setup { database_url: Some(away), ..Setup::default() });
    let answer = app.write("k", "hello").await;
    answer.is_problem(503, "database-unavailable");
    let seconds: u32 = answer.header("retry-after").parse().unwrap();
    assert!((1..=5).contains(&seconds));
    app.get("/api/notes").await.is_problem(503, "database-unavailable");

    let readiness =
        Readiness::new().check("clock", || async { Ok(()) }).database(app.db.clone(), onceward_web::REQUIRED.to_vec());
    let app = App::with(Setup { readiness, ..Setup::default() });
    let answer = app.get("/health/ready").await;
    assert_eq!((answer.status, answer.body["status"].as_str()), (503, Some("not ready")));
    assert_eq!(answer.body["checks"][0]["ok"], true);
    assert_eq!(answer.body["checks"][1]["name"], "database");
    assert_eq!(answer.body["checks"][1]["ok"], false);
    assert_eq!(app.get("/health/live").await.status, 200);
}

#[tokio::test]
async fn a_missing_column_fails_readiness_by_name() {
    let database = App::new();
    let mut required = onceward_web::REQUIRED.to_vec();
    let whole = Readiness::new().database(database.db.clone(), required.clone());
    assert!(whole.report().await.is_ready());
    required.push(onceward_db::RequiredTable { table: "web_test.note", columns: &["text", "colour"] });
    let report = Readiness::new().database(database.db.clone(), required).report().await;
    let detail = report.checks[0].detail.as_deref().unwrap();
    assert!(detail.contains("web_test.note.colour") && !detail.contains("note.text"), "{detail}");
}

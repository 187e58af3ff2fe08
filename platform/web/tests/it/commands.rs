//! A command is checked, takes effect once, and takes effect completely or not at all.

use crate::support::{TestApp, TestConfig, post};
use axum::{
    body::Body,
    http::{Request, header},
};
use onceward_web::WebConfig;
use serde_json::json;

#[tokio::test]
async fn a_valid_command_takes_effect_and_its_response_is_stored() {
    let app = TestApp::new();
    let response = app.write("k", "hello").await;
    assert_eq!(response.status, 201, "{response:?}");
    assert_eq!(response.body["text"], "hello");
    assert_eq!(response.header("idempotency-replayed"), "");
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn invalid_json_is_a_400_that_names_line_and_column() {
    let app = TestApp::new();
    let response = app.send(post("/api/notes", &app.token(), "k", "{\"text\": ")).await;
    response.is_problem(400, "invalid-json").has_detail("line 1 column 9");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn another_content_type_is_a_415() {
    let app = TestApp::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().unwrap());
    app.send(request).await.is_problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn an_unknown_field_is_a_422_that_names_its_path() {
    let app = TestApp::new();
    let body = json!({"text": "a", "colour": "red"}).to_string();
    let response = app.send(post("/api/notes", &app.token(), "k", body)).await;
    response.is_problem(422, "validation-failed");
    assert_eq!(response.body["errors"][0]["path"], "/colour", "{response:?}");
    assert!(!response.text.contains("red"));
}

#[tokio::test]
async fn a_missing_field_is_a_422_that_names_its_path() {
    let app = TestApp::new();
    let response = app.send(post("/api/notes", &app.token(), "k", "{}")).await;
    response.is_problem(422, "validation-failed");
    assert_eq!(response.body["errors"][0]["path"], "/text", "{response:?}");
}

#[tokio::test]
async fn an_invalid_command_stores_nothing_and_its_key_can_be_used_again() {
    let app = TestApp::new();
    app.send(post("/api/notes", &app.token(), "k", "{}")).await.is_problem(422, "validation-failed");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
    assert_eq!(app.write("k", "hello").await.status, 201);
}

#[tokio::test]
async fn a_failed_command_rolls_everything_back_and_the_key_can_be_used_again() {
    let app = TestApp::new();
    let response = app.write("k", "fail").await;
    response.is_problem(500, "internal");
    assert!(!response.text.contains("fails on purpose"));
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
    assert_eq!(app.write("k", "hello").await.status, 201);
}

#[tokio::test]
async fn a_panic_is_a_500_problem_and_is_rolled_back() {
    let app = TestApp::new();
    app.write("k", "panic").await.is_problem(500, "internal");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn a_response_that_is_too_large_to_store_rolls_the_command_back() {
    let app = TestApp::with(TestConfig {
        config: WebConfig { max_stored_response_bytes: 16, ..WebConfig::default() },
        ..TestConfig::default()
    });
    app.write("k", "more than sixteen bytes").await.is_problem(500, "internal");
    assert_eq!(app.notes().await, 0);
}

#[tokio::test]
async fn an_accepted_command_returns_its_status_url_and_correlation_id() {
    let app = TestApp::new();
    let request = Request::post("/api/accepted")
        .header(header::AUTHORIZATION, format!("Bearer {}", app.token()))
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-correlation-id", "story-7")
        .body(Body::from(r#"{"text":"later"}"#))
        .unwrap();
    let response = app.send(request).await;
    assert_eq!(response.status, 202, "{response:?}");
    assert_eq!(response.body["correlationId"], "story-7");
    assert_eq!(response.body["text"], "later");
    assert_eq!(response.body["statusUrl"], response.header("location"));
    // The key is optional on this route, and none was sent.
    assert_eq!((app.notes().await, app.keys().await), (1, 0));
}

#[tokio::test]
async fn a_reader_sees_only_its_own_tenant() {
    let (ours, theirs) = (TestApp::new(), TestApp::new());
    assert_eq!(ours.write("k", "ours").await.status, 201);
    assert_eq!(theirs.write("k", "theirs").await.status, 201);
    let response = ours.get("/api/notes").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.body.as_array().unwrap().len(), 1);
    assert_eq!(response.body[0]["text"], "ours");
}

#[tokio::test]
async fn a_failed_command_is_rolled_back_before_its_response_is_sent() {
    let app = TestApp::new();
    for round in 0..50 {
        let key = format!("k{round}");
        assert_eq!(app.write(&key, "fail").await.status, 500);
        assert_eq!(app.write(&key, "hello").await.status, 201, "round {round}");
    }
    assert_eq!(app.notes().await, 50);
}

#[tokio::test]
async fn a_file_arrives_unchanged_and_its_command_is_idempotent() {
    let app = TestApp::new();
    let file = |text: &'static str| {
        let mut request = post("/api/import", &app.token(), "k", text);
        request.headers_mut().insert(header::CONTENT_TYPE, "Text/CSV; charset=utf-8".parse().unwrap());
        app.send(request)
    };
    let response = file("a,b\nc,\0").await;
    assert_eq!((response.status, &response.body), (200, &json!({"type": "text/csv", "lines": 2})));
    assert_eq!(file("a,b\nc,\0").await.header("idempotency-replayed"), "true");
    file("other").await.is_problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn an_unauthenticated_request_writes_only_after_its_signature_was_verified() {
    let app = TestApp::new();
    let send = |signature: &'static str| {
        let request = Request::post("/hooks/notes").header("x-tenant", &app.tenant).header("x-signature", signature);
        app.send(request.body(Body::from("hello")).unwrap())
    };
    send("bad").await.is_problem(401, "unauthorized").has_detail("signature");
    assert_eq!(app.notes().await, 0);
    assert_eq!(send("good").await.status, 204);
    assert_eq!(app.notes().await, 1);
}

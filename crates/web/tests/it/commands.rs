//! A command is checked, done once, and done whole or not at all.

use crate::support::{App, Setup, post};
use axum::{
    body::Body,
    http::{Request, header},
};
use onceward_web::WebConfig;
use serde_json::json;

#[tokio::test]
async fn a_valid_command_is_done_and_its_response_is_stored() {
    let app = App::new();
    let answer = app.write("k", "hello").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body["text"], "hello");
    assert_eq!(answer.header("idempotency-replayed"), "");
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn invalid_json_is_a_400_that_names_line_and_column() {
    let app = App::new();
    let answer = app.send(post("/api/notes", &app.token(), "k", "{\"text\": ")).await;
    answer.is_problem(400, "invalid-json").says("line 1 column 9");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn another_content_type_is_a_415() {
    let app = App::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().unwrap());
    app.send(request).await.is_problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn an_unknown_field_is_a_422_that_names_its_path() {
    let app = App::new();
    let body = json!({"text": "a", "colour": "red"}).to_string();
    let answer = app.send(post("/api/notes", &app.token(), "k", body)).await;
    answer.is_problem(422, "validation-failed");
    assert_eq!(answer.body["errors"][0]["path"], "/colour", "{answer:?}");
    assert!(!answer.text.contains("red"));
}

#[tokio::test]
async fn a_missing_field_is_a_422_that_points_at_it() {
    let app = App::new();
    let answer = app.send(post("/api/notes", &app.token(), "k", "{}")).await;
    answer.is_problem(422, "validation-failed");
    assert_eq!(answer.body["errors"][0]["path"], "/text", "{answer:?}");
}

#[tokio::test]
async fn a_failed_validation_stores_nothing_and_the_key_can_be_used_again() {
    let app = App::new();
    app.send(post("/api/notes", &app.token(), "k", "{}")).await.is_problem(422, "validation-failed");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
    assert_eq!(app.write("k", "hello").await.status, 201);
}

#[tokio::test]
async fn a_failed_command_rolls_everything_back_and_the_key_can_be_used_again() {
    let app = App::new();
    let answer = app.write("k", "fail").await;
    answer.is_problem(500, "internal");
    assert!(!answer.text.contains("asked to fail"));
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
    assert_eq!(app.write("k", "hello").await.status, 201);
}

#[tokio::test]
async fn a_panic_is_a_500_problem_and_leaves_nothing() {
    let app = App::new();
    app.write("k", "panic").await.is_problem(500, "internal");
    assert_eq!((app.notes().await, app.keys().await), (0, 0));
}

#[tokio::test]
async fn a_response_too_large_to_store_undoes_the_command() {
    let app = App::with(Setup {
        config: WebConfig { max_stored_response_bytes: 16, ..WebConfig::default() },
        ..Setup::default()
    });
    app.write("k", "more than sixteen bytes").await.is_problem(500, "internal");
    assert_eq!(app.notes().await, 0);
}

#[tokio::test]
async fn an_accepted_command_says_where_to_look_and_under_which_id() {
    let app = App::new();
    let request = Request::post("/api/accepted")
        .header(header::AUTHORIZATION, format!("Bearer {}", app.token()))
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-correlation-id", "story-7")
        .body(Body::from(r#"{"text":"later"}"#))
        .unwrap();
    let answer = app.send(request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.body["correlationId"], "story-7");
    assert_eq!(answer.body["text"], "later");
    assert_eq!(answer.body["statusUrl"], answer.header("location"));
    // The key is optional on this route, and none was sent.
    assert_eq!((app.notes().await, app.keys().await), (1, 0));
}

#[tokio::test]
async fn a_reader_sees_its_own_tenant_only() {
    let (ours, theirs) = (App::new(), App::new());
    assert_eq!(ours.write("k", "ours").await.status, 201);
    assert_eq!(theirs.write("k", "theirs").await.status, 201);
    let answer = ours.get("/api/notes").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.as_array().unwrap().len(), 1);
    assert_eq!(answer.body[0]["text"], "ours");
}

#[tokio::test]
async fn a_refused_command_is_undone_before_it_is_answered() {
    let app = App::new();
    for round in 0..50 {
        let key = format!("k{round}");
        assert_eq!(app.write(&key, "fail").await.status, 500);
        assert_eq!(app.write(&key, "hello").await.status, 201, "round {round}");
    }
    assert_eq!(app.notes().await, 50);
}

#[tokio::test]
async fn a_file_comes_as_it_was_sent_and_is_a_command_like_any_other() {
    let app = App::new();
    let file = |text: &'static str| {
        let mut request = post("/api/import", &app.token(), "k", text);
        request.headers_mut().insert(header::CONTENT_TYPE, "Text/CSV; charset=utf-8".parse().unwrap());
        app.send(request)
    };
    let answer = file("a,b\nc,\0").await;
    assert_eq!((answer.status, &answer.body), (200, &json!({"type": "text/csv", "lines": 2})));
    assert_eq!(file("a,b\nc,\0").await.header("idempotency-replayed"), "true");
    file("other").await.is_problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn a_signed_request_acts_for_the_tenant_it_proves_and_leaves_nothing_when_it_does_not() {
    let app = App::new();
    let send = |signature: &'static str| {
        let request = Request::post("/hooks/notes").header("x-tenant", &app.tenant).header("x-signature", signature);
        app.send(request.body(Body::from("told")).unwrap())
    };
    send("bad").await.is_problem(401, "unauthorized").says("signature");
    assert_eq!(app.notes().await, 0);
    assert_eq!(send("good").await.status, 204);
    assert_eq!(app.notes().await, 1);
}

//! The `Idempotency-Key`: a repeated command takes effect once.

use crate::support::{SECRET, TestApp, post};
use onceward_db::{DbConfig, migrate};
use onceward_web::{Claims, idempotency::forget_expired, issue_hs256};
use serde_json::json;

fn body(text: &str) -> String {
    json!({"text": text}).to_string()
}

#[tokio::test]
async fn the_same_key_replays_status_and_body_and_has_one_effect() {
    let app = TestApp::new();
    let first = app.write("k", "hello").await;
    let again = app.write("k", "hello").await;
    assert_eq!((first.status, first.text), (again.status, again.text.clone()));
    assert_eq!(again.header("content-type"), "application/json");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn a_replayed_202_keeps_its_location() {
    let app = TestApp::new();
    let request = || post("/api/accepted", &app.token(), "k", body("later"));
    let first = app.send(request()).await;
    let again = app.send(request()).await;
    assert_eq!(first.header("location"), again.header("location"));
    assert_eq!(first.text, again.text);
    assert_eq!(again.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn the_same_key_with_another_body_is_a_422() {
    let app = TestApp::new();
    assert_eq!(app.write("k", "hello").await.status, 201);
    app.write("k", "other").await.is_problem(422, "idempotency-key-reused");
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn keys_are_separate_per_tenant_user_and_path() {
    let (app, other) = (TestApp::new(), TestApp::new());
    assert_eq!(app.write("k", "hello").await.status, 201);
    let foreign = other.write("k", "hello").await;
    assert_eq!((foreign.status, foreign.header("idempotency-replayed")), (201, ""));
    let bob = Claims { sub: "bob".into(), ..app.claims() };
    let bobs = app.send(post("/api/notes", &issue_hs256(SECRET, &bob), "k", body("hello"))).await;
    assert_eq!((bobs.status, bobs.header("idempotency-replayed")), (201, ""));
    let elsewhere = app.send(post("/api/accepted", &app.token(), "k", body("hello"))).await;
    assert_eq!((elsewhere.status, elsewhere.header("idempotency-replayed")), (202, ""));
    assert_eq!((app.notes().await, other.notes().await), (3, 1));
}

#[tokio::test]
async fn a_key_is_required_and_must_be_valid() {
    let app = TestApp::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().remove("idempotency-key");
    app.send(request).await.is_problem(400, "idempotency-key-missing");
    let long = "x".repeat(256);
    app.write(&long, "hello").await.is_problem(400, "idempotency-key-invalid");
    app.write("", "hello").await.is_problem(400, "idempotency-key-invalid");
    assert_eq!(app.write(&long[1..], "hello").await.status, 201);
}

#[tokio::test]
async fn a_concurrent_repetition_is_a_409_with_retry_after() {
    let app = TestApp::new();
    app.pause.arm();
    let first = app.write("k", "hello");
    let second = async {
        app.pause.entered().await;
        let response = app.write("k", "hello").await;
        app.pause.release();
        response
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.status, 201);
    second.is_problem(409, "idempotency-key-in-progress");
    assert_eq!(second.header("retry-after"), "1");
    let third = app.write("k", "hello").await;
    assert_eq!((third.text, app.notes().await), (first.text, 1));
}

#[tokio::test]
async fn a_command_whose_client_disconnects_is_rolled_back_and_frees_its_key() {
    let app = TestApp::new();
    app.pause.arm();
    tokio::select! {
        _ = app.write("k", "hello") => unreachable!("the handler is paused"),
        () = app.pause.entered() => {}
    }
    // The rollback is sent when the dropped request's connection returns to the pool; until then the key is in
    // progress.
    let mut response = app.write("k", "hello").await;
    for _ in 0..1000 {
        if response.status != 409 {
            break;
        }
        response = app.write("k", "hello").await;
    }
    assert_eq!((response.status, response.header("idempotency-replayed")), (201, ""));
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn many_concurrent_repetitions_have_one_effect() {
    let app = TestApp::new();
    let responses = futures_util::future::join_all((0..12).map(|_| app.write("k", "hello"))).await;
    assert!(responses.iter().all(|response| [201, 409].contains(&response.status)), "{responses:?}");
    let fresh = |response: &&crate::support::TestResponse| {
        response.status == 201 && response.header("idempotency-replayed").is_empty()
    };
    assert_eq!(responses.iter().filter(fresh).count(), 1);
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn an_expired_key_can_be_used_again_and_is_deleted_by_the_platform() {
    let app = TestApp::new();
    assert_eq!(app.write("k", "hello").await.status, 201);
    expire_keys(&app).await;
    let response = app.write("k", "other").await;
    assert_eq!((response.status, response.header("idempotency-replayed")), (201, ""));
    assert_eq!((app.notes().await, app.keys().await), (2, 1));
    expire_keys(&app).await;
    assert!(forget_expired(&app.db, 1000).await.unwrap() >= 1);
    assert_eq!(app.keys().await, 0);
}

async fn expire_keys(app: &TestApp) {
    let owner = migrate::owner(&DbConfig::new(&app.database.url)).await.unwrap();
    owner
        .execute(
            "UPDATE onceward_web.idempotency_key SET expires_at = now() - interval '1 s' WHERE tenant_id = $1",
            &[&app.tenant],
        )
        .await
        .unwrap();
}

//! The `Idempotency-Key`: a repeated command is done once.

use crate::support::{App, SECRET, post};
use onceward_db::{DbConfig, migrate};
use onceward_web::{Claims, idempotency::forget_expired, issue_hs256};
use serde_json::json;

fn body(text: &str) -> String {
    json!({"text": text}).to_string()
}

#[tokio::test]
async fn the_same_key_replays_status_and_body_and_has_one_effect() {
    let app = App::new();
    let first = app.write("k", "hello").await;
    let again = app.write("k", "hello").await;
    assert_eq!((first.status, first.text), (again.status, again.text.clone()));
    assert_eq!(again.header("content-type"), "application/json");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn a_replayed_202_keeps_its_location() {
    let app = App::new();
    let request = || post("/api/accepted", &app.token(), "k", body("later"));
    let first = app.send(request()).await;
    let again = app.send(request()).await;
    assert_eq!(first.header("location"), again.header("location"));
    assert_eq!(first.text, again.text);
    assert_eq!(again.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn the_same_key_with_another_body_is_a_422() {
    let app = App::new();
    assert_eq!(app.write("k", "hello").await.status, 201);
    app.write("k", "other").await.is_problem(422, "idempotency-key-reused");
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn another_tenant_another_user_and_another_path_have_keys_of_their_own() {
    let (app, other) = (App::new(), App::new());
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
    let app = App::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().remove("idempotency-key");
    app.send(request).await.is_problem(400, "idempotency-key-missing");
    let long = "x".repeat(256);
    app.write(&long, "hello").await.is_problem(400, "idempotency-key-invalid");
    app.write("", "hello").await.is_problem(400, "idempotency-key-invalid");
    assert_eq!(app.write(&long[1..], "hello").await.status, 201);
}

#[tokio::test]
async fn of_two_at_the_same_time_one_runs_and_the_other_is_told_to_come_back() {
    let app = App::new();
    app.hold.arm();
    let first = app.write("k", "hello");
    let second = async {
        app.hold.entered().await;
        let answer = app.write("k", "hello").await;
        app.hold.release();
        answer
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.status, 201);
    second.is_problem(409, "idempotency-key-in-progress");
    assert_eq!(second.header("retry-after"), "1");
    let third = app.write("k", "hello").await;
    assert_eq!((third.text, app.notes().await), (first.text, 1));
}

#[tokio::test]
async fn a_command_dropped_in_the_middle_leaves_nothing_and_frees_its_key() {
    let app = App::new();
    app.hold.arm();
    tokio::select! {
        _ = app.write("k", "hello") => unreachable!("it is held"),
        () = app.hold.entered() => {}
    }
    // The rollback goes out as the dropped request's connection returns; until then the key says so.
    let mut answer = app.write("k", "hello").await;
    for _ in 0..1000 {
        if answer.status != 409 {
            break;
        }
        answer = app.write("k", "hello").await;
    }
    assert_eq!((answer.status, answer.header("idempotency-replayed")), (201, ""));
    assert_eq!((app.notes().await, app.keys().await), (1, 1));
}

#[tokio::test]
async fn many_at_once_have_one_effect() {
    let app = App::new();
    let answers = futures_util::future::join_all((0..12).map(|_| app.write("k", "hello"))).await;
    assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status)), "{answers:?}");
    let fresh =
        |answer: &&crate::support::Answer| answer.status == 201 && answer.header("idempotency-replayed").is_empty();
    assert_eq!(answers.iter().filter(fresh).count(), 1);
    assert_eq!(app.notes().await, 1);
}

#[tokio::test]
async fn an_expired_key_is_free_again_and_is_forgotten_by_the_engine() {
    let app = App::new();
    assert_eq!(app.write("k", "hello").await.status, 201);
    expire_keys(&app).await;
    let answer = app.write("k", "other").await;
    assert_eq!((answer.status, answer.header("idempotency-replayed")), (201, ""));
    assert_eq!((app.notes().await, app.keys().await), (2, 1));
    expire_keys(&app).await;
    assert!(forget_expired(&app.db, 1000).await.unwrap() >= 1);
    assert_eq!(app.keys().await, 0);
}

async fn expire_keys(app: &App) {
    let owner = migrate::owner(&DbConfig::new(&app.database.url)).await.unwrap();
    owner
        .execute(
            "UPDATE onceward_web.idempotency_key SET expires_at = now() - interval '1 s' WHERE tenant_id = $1",
            &[&app.tenant],
        )
        .await
        .unwrap();
}

//! Errors before any handler runs, and their pages.

use crate::support::TestApp;
use axum::{body::Body, http::Request};
use onceward_web::problem::codes;

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_problems_too() {
    let app = TestApp::new();
    let missing = app.get("/nowhere").await;
    missing.is_problem(404, "not-found");
    assert_eq!(missing.body["instance"], "/nowhere");
    let request = Request::delete("/api/notes").body(Body::empty()).unwrap();
    let wrong = app.send(request).await;
    wrong.is_problem(405, "method-not-allowed");
    assert!(wrong.header("allow").contains("POST"), "{wrong:?}");
}

#[tokio::test]
async fn an_invalid_path_parameter_is_a_problem() {
    let app = TestApp::new();
    assert_eq!(app.get("/api/numbers/7").await.text, "7");
    app.get("/api/numbers/seven").await.is_problem(400, "invalid-request");
}

#[tokio::test]
async fn every_problem_type_is_the_url_of_its_page() {
    let app = TestApp::new();
    for code in codes::ALL {
        let page = app.get(&format!("/problems/{}", code.code)).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/markdown"));
        assert!(page.text.contains("What to do"), "{} does not say what to do", code.code);
    }
    app.get("/problems/no-such-code").await.is_problem(404, "not-found");
}

#[tokio::test]
async fn the_openapi_description_lists_the_commands() {
    let app = TestApp::new();
    let response = app.get("/openapi.json").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.body["openapi"], "3.1.0");
    assert_eq!(response.body["paths"]["/api/notes"]["post"]["summary"], "Write a note");
}

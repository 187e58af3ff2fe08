//! In debug builds a response that differs from its declaration fails, so that the API's description stays true.

use crate::support::TestApp;
use axum::{
    Json,
    response::{Html, IntoResponse},
};
use onceward_web::{Access, Problem, Routes, StatusCode, problem::codes};
use serde_json::json;

fn note() -> Routes {
    Routes::new().get("/", Access::public(), || async { Json(json!({"id": 1, "text": "hello"})) })
}

fn page() -> Routes {
    Routes::new().get("/", Access::public(), || async { Html("hello") })
}

fn nothing() -> Routes {
    Routes::new().get("/", Access::public(), || async { StatusCode::NO_CONTENT })
}

async fn status(routes: Routes) -> u16 {
    TestApp::serving(routes).get("/").await.status
}

#[tokio::test]
async fn a_response_as_declared_is_returned() {
    assert_eq!(status(note().responds(200, "note.v1")).await, 200);
    assert_eq!(status(page().responds_media(200, "text/html")).await, 200);
    assert_eq!(status(page().responds(200, "note.v1").responds_media(200, "text/html")).await, 200);
    assert_eq!(status(nothing().responds_empty(204)).await, 204);
    assert_eq!(status(note()).await, 200, "a route without declared responses is not checked");
}

#[tokio::test]
async fn a_response_that_differs_from_its_declaration_is_a_500_in_debug_builds() {
    for routes in [
        note().responds_empty(200),
        note().responds(201, "note.v1"),
        note().responds(200, "note.write.v1"),
        note().responds_media(200, "text/html"),
        page().responds(200, "note.v1"),
        nothing().responds(204, "note.v1"),
    ] {
        assert_eq!(status(routes).await, 500);
    }
}

#[tokio::test]
async fn problems_and_rejections_need_no_declaration() {
    let problem = Routes::new().get("/", Access::public(), || async { Problem::new(codes::NOT_FOUND) });
    assert_eq!(status(problem.responds(200, "note.v1")).await, 404);
    let rejection = || async { (StatusCode::BAD_REQUEST, "not a number").into_response() };
    let rejection = Routes::new().get("/", Access::public(), rejection);
    assert_eq!(status(rejection.responds(200, "note.v1")).await, 400);
}

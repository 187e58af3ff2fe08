//! Errors that come before any handler, the pages behind them, and declarations that cannot be served.

use crate::support::{App, SECRET, schemas};
use axum::{body::Body, http::Request};
use onceward_db::{Db, DbConfig};
use onceward_web::{
    Access, AppError, AppState, AuthConfig, Authenticator, MetricsHandle, Problem, ProblemCode, Readiness, Routes,
    WebConfig, build_router, install_recorder, problem::codes,
};

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_problems_too() {
    let app = App::new();
    let missing = app.get("/nowhere").await;
    missing.is_problem(404, "not-found");
    assert_eq!(missing.body["instance"], "/nowhere");
    let request = Request::delete("/api/notes").body(Body::empty()).unwrap();
    let wrong = app.send(request).await;
    wrong.is_problem(405, "method-not-allowed");
    assert!(wrong.header("allow").contains("POST"), "{wrong:?}");
}

#[tokio::test]
async fn a_path_parameter_of_the_wrong_form_is_a_problem() {
    let app = App::new();
    assert_eq!(app.get("/api/numbers/7").await.text, "7");
    app.get("/api/numbers/seven").await.is_problem(400, "invalid-request");
}

#[tokio::test]
async fn every_problem_type_leads_to_its_page() {
    let app = App::new();
    for code in codes::ALL {
        let page = app.get(&format!("/problems/{}", code.code)).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/markdown"));
        assert!(page.text.contains("What to do"), "{} does not say what to do", code.code);
    }
    app.get("/problems/no-such-code").await.is_problem(404, "not-found");
}

#[tokio::test]
async fn the_api_is_described_with_its_commands() {
    let app = App::new();
    let answer = app.get("/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body["openapi"], "3.1.0");
    assert_eq!(answer.body["paths"]["/api/notes"]["post"]["summary"], "Write a note");
}

async fn handler() -> Problem {
    Problem::new(codes::NOT_FOUND)
}

fn refused(services: Vec<(&'static str, Routes)>) -> AppError {
    let state = AppState::new(
        Db::connect(DbConfig::new("postgres://nobody@127.0.0.1:1/nowhere")).unwrap(),
        schemas(),
        Authenticator::new(AuthConfig::hs256(SECRET)).unwrap(),
        WebConfig::default(),
        Readiness::new(),
        MetricsHandle::new(install_recorder()),
    );
    build_router(state, services).unwrap_err()
}

#[tokio::test]
async fn a_declaration_that_cannot_be_served_is_refused_at_start() {
    let route = || Routes::new().get("/api/x", Access::public(), handler);
    let twice = refused(vec![("a", route()), ("b", route())]);
    assert!(twice.to_string().starts_with("b declares GET /api/x"));
    let unknown = refused(vec![("a", route().responds(200, "nothing.v1"))]);
    assert!(unknown.to_string().contains("nothing.v1"));
    let code = ProblemCode::new("internal", 500, "Ours", "# Ours");
    let taken = refused(vec![("a", route().problems(&[code]))]);
    assert!(taken.to_string().contains("problem code internal"));
}

//! Builds the router from the declared routes.
//!
//! ```text
//! observe: ids, span, metrics, complete problem documents
//!   └ catch panics
//!       ├ /, /docs, /health/*, /metrics, /problems/*, /openapi.json      not limited
//!       └ limits: concurrency, time
//!            └ authorize: token, role
//!                 └ handler
//! ```

use crate::{
    AppState, Problem, ProblemCode, Routes,
    caller::authorize,
    health,
    limits::{RequestLimits, enforce_limits, panicked},
    metrics, observe, openapi, pages,
    problem::codes,
};
use axum::{
    Router,
    body::Bytes,
    extract::Path,
    http::{HeaderMap, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{collections::BTreeMap, sync::Arc};
use tower_http::catch_panic::CatchPanicLayer;

/// The paths of the platform's own endpoints. No service can declare a `GET` route with one of them.
pub(crate) const PLATFORM_PATHS: &[&str] =
    &["/health/live", "/health/ready", "/metrics", "/openapi.json", "/problems/{code}", pages::STYLE_PATH];

type ProblemCodes = Arc<BTreeMap<&'static str, ProblemCode>>;

/// Builds the router of all services with the platform's layers and endpoints.
///
/// # Panics
/// If a path is declared twice or is malformed: [`crate::routes::check`] reports such mistakes beforehand.
pub fn build_router(state: AppState, services: Vec<(&'static str, Routes)>) -> Router {
    let codes = problem_codes(&services);
    let description = openapi::describe(&services, &state.schemas);
    let browser_pages = browser_pages(&services, &description, &codes);
    let description = Bytes::from(description.to_string());

    let shared = Arc::new(state.clone());
    let mut api = Router::new();
    for route in services.into_iter().flat_map(|(_, routes)| routes.routes) {
        let path = route.spec.path.clone();
        let authorize = from_fn_with_state((shared.clone(), Arc::new(route.spec)), authorize);
        api = api.route(&path, route.handler.with_state(()).route_layer(authorize));
    }
    let api = api.layer(from_fn_with_state(RequestLimits::new(&state), enforce_limits));

    let platform = Router::new()
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::scrape))
        .route("/openapi.json", get(move || json(description.clone())))
        .route("/problems/{code}", get(move |code, headers| problem_page(code, headers, codes.clone())));

    api.merge(platform)
        .merge(browser_pages)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe::observe))
        .with_state(state)
}

/// Returns the routes of the browser pages. A page is omitted if a service declares its path.
fn browser_pages(
    services: &[(&'static str, Routes)],
    description: &serde_json::Value,
    codes: &ProblemCodes,
) -> Router<AppState> {
    let is_free = |path: &str| !services.iter().any(|(_, routes)| routes.specs().any(|spec| spec.path == path));
    let mut router = Router::new();
    if is_free("/") {
        let pages::HomePage { html, json } = pages::home(services);
        let (html, json) = (Bytes::from(html), Bytes::from(json.to_string()));
        router = router.route("/", get(move |headers| page_or_json(headers, html.clone(), json.clone())));
    }
    if is_free("/docs") {
        let html = Bytes::from(pages::docs(description));
        router = router.route("/docs", get(async move || pages::respond(html.clone())));
    }
    if is_free("/problems") {
        let html = Bytes::from(pages::problems(codes));
        let names: Vec<&str> = codes.keys().copied().collect();
        let json = Bytes::from(serde_json::json!({ "codes": names }).to_string());
        router = router.route("/problems", get(move |headers| page_or_json(headers, html.clone(), json.clone())));
    }
    router.route(pages::STYLE_PATH, get(pages::style))
}

async fn page_or_json(headers: HeaderMap, html: Bytes, text: Bytes) -> Response {
    if pages::prefers_html(&headers) { pages::respond(html) } else { json(text).await }
}

fn problem_codes(services: &[(&'static str, Routes)]) -> ProblemCodes {
    let of_services = services.iter().flat_map(|(_, routes)| &routes.problems);
    Arc::new(codes::ALL.iter().chain(of_services).map(|code| (code.code, *code)).collect())
}

async fn problem_page(Path(code): Path<String>, headers: HeaderMap, codes: ProblemCodes) -> Result<Response, Problem> {
    let page = codes.get(code.as_str()).ok_or_else(|| {
        Problem::new(codes::NOT_FOUND).detail("There is no problem code with this name. /problems lists all codes.")
    })?;
    if pages::prefers_html(&headers) {
        return Ok(pages::respond(pages::problem(page)));
    }
    let headers = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8"), (header::VARY, "accept")];
    Ok((headers, page.page).into_response())
}

async fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn not_found() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no such path. /docs and /openapi.json list all paths.")
}

async fn method_not_allowed() -> Problem {
    Problem::new(codes::METHOD_NOT_ALLOWED)
        .detail("The path does not support this method. The Allow header lists those it supports.")
}

//! From declared routes to a router.
//!
//! ```text
//! observe: ids, span, metrics, problems completed
//!   └ panics caught
//!       ├ /health/*, /metrics, /problems/*, /openapi.json      never shed
//!       └ limits: concurrency, time
//!            └ gate: token, role
//!                 └ handler
//! ```

use crate::{
    AppState, Problem, ProblemCode, Routes,
    caller::gate,
    health,
    limits::{Limits, limit, panicked},
    metrics, observe, openapi,
    problem::codes,
};
use axum::{
    Router,
    body::Bytes,
    extract::Path,
    http::header,
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tower_http::catch_panic::CatchPanicLayer;

/// A declaration that cannot be served; found at start, not by a caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// Two routes are the same.
    #[error("{service} declares {method} {path}, which is already declared; choose another path")]
    DuplicateRoute {
        /// The later one's service.
        service: String,
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
    /// A route names a schema that nobody registered.
    #[error(
        "{service}: {method} {path} names the schema {schema_id}, which is not registered; add it to the service's schemas"
    )]
    UnknownSchema {
        /// The service.
        service: String,
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// The schema's `$id`.
        schema_id: String,
    },
    /// Two problem codes have the same name.
    #[error("{service} declares the problem code {code}, which is already declared; choose another name")]
    DuplicateProblem {
        /// The later one's service.
        service: String,
        /// The code.
        code: &'static str,
    },
}

/// The router of all services, with everything the platform adds around them.
pub fn build_router(state: AppState, services: Vec<(&'static str, Routes)>) -> Result<Router, AppError> {
    check_routes(&state, &services)?;
    let pages = problem_pages(&services)?;
    let description = openapi::describe(&services, &state.schemas);
    let description = Bytes::from(description.to_string());

    let mut api = Router::new();
    for route in services.into_iter().flat_map(|(_, routes)| routes.routes) {
        let path = route.spec.path.clone();
        let gate = from_fn_with_state((state.clone(), Arc::new(route.spec)), gate);
        api = api.route(&path, route.handler.route_layer(gate));
    }
    let api = api.layer(from_fn_with_state(Limits::new(&state), limit));

    let platform = Router::new()
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::scrape))
        .route("/openapi.json", get(move || json(description.clone())))
        .route("/problems/{code}", get(move |code| problem_page(code, pages.clone())));

    Ok(api
        .merge(platform)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe::observe))
        .with_state(state))
}

fn check_routes(state: &AppState, services: &[(&'static str, Routes)]) -> Result<(), AppError> {
    let mut seen = BTreeSet::new();
    for (service, routes) in services {
        for spec in routes.specs() {
            let (method, path) = (spec.method.to_string(), spec.path.clone());
            if !seen.insert((method.clone(), path.clone())) {
                let service = (*service).to_owned();
                return Err(AppError::DuplicateRoute { service, method, path });
            }
            let answers = spec.responses.iter().filter_map(|(_, schema)| schema.as_ref());
            if let Some(schema_id) = spec.request.iter().chain(answers).find(|id| !state.schemas.contains(id)) {
                return Err(AppError::UnknownSchema {
                    service: (*service).to_owned(),
                    method,
                    path,
                    schema_id: schema_id.clone(),
                });
            }
        }
    }
    Ok(())
}

type Pages = Arc<BTreeMap<&'static str, ProblemCode>>;

fn problem_pages(services: &[(&'static str, Routes)]) -> Result<Pages, AppError> {
    let mut pages: BTreeMap<_, _> = codes::ALL.iter().map(|code| (code.code, *code)).collect();
    for (service, routes) in services {
        for code in &routes.problems {
            if pages.insert(code.code, *code).is_some() {
                return Err(AppError::DuplicateProblem { service: (*service).to_owned(), code: code.code });
            }
        }
    }
    Ok(Arc::new(pages))
}

async fn problem_page(Path(code): Path<String>, pages: Pages) -> Result<Response, Problem> {
    let page = pages
        .get(code.as_str())
        .ok_or_else(|| Problem::new(codes::NOT_FOUND).detail("There is no problem code of this name."))?;
    let content_type = "text/markdown; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], page.page).into_response())
}

async fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn not_found() -> Problem {
    Problem::new(codes::NOT_FOUND).detail("There is no such path; /openapi.json lists those there are.")
}

async fn method_not_allowed() -> Problem {
    Problem::new(codes::METHOD_NOT_ALLOWED).detail("The Allow header lists the methods of this path.")
}

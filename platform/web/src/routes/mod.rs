//! A service's HTTP routes, declared as data next to the handlers.
//!
//! `spec` describes one route, [`check`] reports every mistake in the declarations, `declared` keeps handlers true to
//! them in debug builds.

mod check;
pub(crate) mod declared;
mod spec;

pub use check::{RouteError, check};
pub use spec::{Access, Idempotency, ResponseBody, ResponseSpec, RouteSpec};

use crate::{ACCEPTED_SCHEMA, ProblemCode};
use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};

pub(crate) struct Route<S = ()> {
    pub(crate) spec: RouteSpec,
    pub(crate) handler: MethodRouter<S>,
}

/// The routes of one service. `summary`, `request`, `responds`, `idempotency` and `max_body_bytes` apply to the route
/// declared last.
///
/// As with axum's `Router`, handlers may need a state `S` of the service, which [`Routes::with_state`] provides. Only
/// routes whose state was provided can be served:
///
/// ```
/// use axum::extract::State;
/// use onceward_web::{Access, Problem, Reader, Response, Routes, axum};
/// use std::sync::Arc;
///
/// struct PriceList {
///     currency: &'static str,
/// }
///
/// fn routes() -> Routes {
///     Routes::new()
///         .get("/api/prices", Access::role("prices:read"), list_prices)
///         .summary("List the prices")
///         .responds(200, "price.list.v1")
///         .with_state(Arc::new(PriceList { currency: "USD" }))
/// }
///
/// async fn list_prices(State(prices): State<Arc<PriceList>>, reader: Reader) -> Result<Response, Problem> {
///     reader.respond(&prices.currency).await
/// }
/// # routes();
/// ```
pub struct Routes<S = ()> {
    pub(crate) routes: Vec<Route<S>>,
    pub(crate) problems: Vec<ProblemCode>,
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self { routes: Vec::new(), problems: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Creates an empty set of routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route that reads.
    pub fn get<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::GET, MethodFilter::GET, path, access, handler)
    }

    /// Adds a route that accepts a command.
    pub fn post<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::POST, MethodFilter::POST, path, access, handler)
    }

    /// Adds a route that replaces a resource.
    pub fn put<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::PUT, MethodFilter::PUT, path, access, handler)
    }

    /// Adds a route that changes a part of a resource.
    pub fn patch<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::PATCH, MethodFilter::PATCH, path, access, handler)
    }

    /// Adds a route that deletes a resource.
    pub fn delete<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.route(Method::DELETE, MethodFilter::DELETE, path, access, handler)
    }

    /// Sets the one-line summary for the API's description.
    pub fn summary(mut self, summary: &str) -> Self {
        self.last().summary = Some(summary.to_owned());
        self
    }

    /// Sets the `$id` of the schema that bodies are checked against before the handler runs.
    pub fn request(mut self, schema_id: &str) -> Self {
        self.last().request = Some(schema_id.to_owned());
        self
    }

    /// Adds a JSON response with this status, and the `$id` of its schema.
    ///
    /// In debug builds a response that was not declared, or that violates its schema, panics. Problems need no
    /// declaration, and a route without declared responses is not checked.
    pub fn responds(self, status: u16, schema_id: &str) -> Self {
        self.response(status, ResponseBody::Json(schema_id.to_owned()))
    }

    /// Adds a response with this status and no body, such as a 204 or a redirect.
    pub fn responds_empty(self, status: u16) -> Self {
        self.response(status, ResponseBody::Empty)
    }

    /// Adds a response with this status and content of another media type than JSON, such as `text/html`.
    pub fn responds_media(self, status: u16, media_type: &str) -> Self {
        self.response(status, ResponseBody::Media(media_type.to_owned()))
    }

    /// Adds the 202 response of [`crate::Command::accepted`]: `correlationId`, `statusUrl` and further fields.
    pub fn responds_accepted(self) -> Self {
        self.responds(202, ACCEPTED_SCHEMA)
    }

    /// Sets how it handles the `Idempotency-Key` header, if not as its method's default.
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.last().idempotency = idempotency;
        self
    }

    /// Sets the largest body that it accepts, if not `http.max_body_bytes`: a route for files accepts more than one for
    /// JSON.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.last().max_body_bytes = Some(bytes);
        self
    }

    /// Adds the service's own problem codes; their pages are served with the platform's.
    pub fn problems(mut self, codes: &[ProblemCode]) -> Self {
        self.problems.extend_from_slice(codes);
        self
    }

    /// Adds the routes and problem codes of `other`.
    pub fn merge(mut self, other: Self) -> Self {
        self.routes.extend(other.routes);
        self.problems.extend(other.problems);
        self
    }

    /// Provides the state that the handlers extract with axum's `State`.
    pub fn with_state(self, state: S) -> Routes {
        let provide = |Route { spec, handler }| Route { spec, handler: handler.with_state(state.clone()) };
        Routes { routes: self.routes.into_iter().map(provide).collect(), problems: self.problems }
    }

    fn route<H, T>(mut self, method: Method, filter: MethodFilter, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.routes.push(Route { spec: RouteSpec::new(method, path, access), handler: on(filter, handler) });
        self
    }

    fn response(mut self, status: u16, body: ResponseBody) -> Self {
        self.last().responses.push(ResponseSpec { status, body });
        self
    }

    fn last(&mut self) -> &mut RouteSpec {
        let route = self.routes.last_mut();
        &mut route.expect("a route is declared before it is described").spec
    }
}

impl<S> Routes<S> {
    /// Returns the declared routes, for descriptions and checks.
    pub fn specs(&self) -> impl Iterator<Item = &RouteSpec> {
        self.routes.iter().map(|route| &route.spec)
    }
}

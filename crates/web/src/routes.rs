//! What a service declares about its HTTP surface, as data next to the handlers.

use crate::{AppState, ProblemCode};
use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use std::borrow::Cow;

/// Who may call a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody, without a token. There is no [`crate::Caller`] on such a route.
    Public,
    /// Anybody with a valid token.
    Authenticated,
    /// Anybody whose token carries this role.
    Role(Cow<'static, str>),
}

impl Access {
    /// Anybody, without a token.
    pub fn public() -> Self {
        Self::Public
    }

    /// Anybody with a valid token.
    pub fn authenticated() -> Self {
        Self::Authenticated
    }

    /// Anybody whose token carries `role`.
    pub fn role(role: impl Into<Cow<'static, str>>) -> Self {
        Self::Role(role.into())
    }
}

/// What a route does with the `Idempotency-Key` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// A command without a key is refused. The default for everything but `GET`.
    Required,
    /// A key is honoured if it is there.
    Optional,
    /// The header is not looked at. The default for `GET`.
    Off,
}

/// One route, as declared.
#[derive(Clone, Debug)]
pub struct RouteSpec {
    /// The method.
    pub method: Method,
    /// The path in axum's form: `/api/orders/{id}`.
    pub path: String,
    /// Who may call it.
    pub access: Access,
    /// One line for the API's description.
    pub summary: Option<String>,
    /// The schema the body is checked against.
    pub request: Option<String>,
    /// Statuses it answers with, and the schema of each one's body.
    pub responses: Vec<(u16, Option<String>)>,
    /// What it does with the `Idempotency-Key` header.
    pub idempotency: Idempotency,
    /// The largest body it takes, if not the server's usual one.
    pub max_body_bytes: Option<usize>,
}

pub(crate) struct Route {
    pub(crate) spec: RouteSpec,
    pub(crate) handler: MethodRouter<AppState>,
}

/// The routes of one service. `summary`, `request`, `responds`, `idempotency` and `max_body_bytes` speak of the route
/// declared last.
#[derive(Default)]
pub struct Routes {
    pub(crate) routes: Vec<Route>,
    pub(crate) problems: Vec<ProblemCode>,
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A route that reads.
    pub fn get<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.route(Method::GET, MethodFilter::GET, path, access, handler)
    }

    /// A route that takes a command.
    pub fn post<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.route(Method::POST, MethodFilter::POST, path, access, handler)
    }

    /// A route that replaces something.
    pub fn put<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.route(Method::PUT, MethodFilter::PUT, path, access, handler)
    }

    /// A route that changes a part of something.
    pub fn patch<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.route(Method::PATCH, MethodFilter::PATCH, path, access, handler)
    }

    /// A route that removes something.
    pub fn delete<H, T>(self, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.route(Method::DELETE, MethodFilter::DELETE, path, access, handler)
    }

    /// One line for the API's description.
    pub fn summary(mut self, summary: &str) -> Self {
        self.last().summary = Some(summary.to_owned());
        self
    }

    /// The `$id` of the schema that bodies are checked against before the handler runs.
    pub fn request(mut self, schema_id: &str) -> Self {
        self.last().request = Some(schema_id.to_owned());
        self
    }

    /// A status it answers with, and the `$id` of its body's schema.
    pub fn responds(mut self, status: u16, schema_id: &str) -> Self {
        self.last().responses.push((status, Some(schema_id.to_owned())));
        self
    }

    /// A status it answers with, without a declared body.
    pub fn responds_empty(mut self, status: u16) -> Self {
        self.last().responses.push((status, None));
        self
    }

    /// What it does with the `Idempotency-Key` header, if not the default of its method.
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.last().idempotency = idempotency;
        self
    }

    /// The largest body it takes, if not `web.max_body_bytes`: a route for files takes more than one for JSON.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.last().max_body_bytes = Some(bytes);
        self
    }

    /// Problem codes of the service's own; their pages are served with the platform's.
    pub fn problems(mut self, codes: &[ProblemCode]) -> Self {
        self.problems.extend_from_slice(codes);
        self
    }

    /// What is declared, for descriptions and checks.
    pub fn specs(&self) -> impl Iterator<Item = &RouteSpec> {
        self.routes.iter().map(|route| &route.spec)
    }

    fn route<H, T>(mut self, method: Method, filter: MethodFilter, path: &str, access: Access, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let idempotency = match method {
            Method::GET => Idempotency::Off,
            _ => Idempotency::Required,
        };
        self.routes.push(Route {
            spec: RouteSpec {
                method,
                path: path.to_owned(),
                access,
                summary: None,
                request: None,
                responses: Vec::new(),
                idempotency,
                max_body_bytes: None,
            },
            handler: on(filter, handler),
        });
        self
    }

    fn last(&mut self) -> &mut RouteSpec {
        let route = self.routes.last_mut();
        &mut route.expect("a route is declared before it is described").spec
    }
}

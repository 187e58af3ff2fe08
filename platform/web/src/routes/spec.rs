//! One route as data: what its handler needs and returns.

use crate::Problem;
use axum::http::{Extensions, Method};
use std::{borrow::Cow, sync::Arc};

/// Who may call a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any caller, without a token. Such a route has no [`crate::Caller`].
    Public,
    /// Any caller with a valid token.
    Authenticated,
    /// Any caller whose token carries this role.
    Role(Cow<'static, str>),
}

impl Access {
    /// Allows any caller, without a token.
    pub fn public() -> Self {
        Self::Public
    }

    /// Allows any caller with a valid token.
    pub fn authenticated() -> Self {
        Self::Authenticated
    }

    /// Allows any caller whose token carries `role`.
    pub fn role(role: impl Into<Cow<'static, str>>) -> Self {
        Self::Role(role.into())
    }
}

/// How a route handles the `Idempotency-Key` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// A command without a key is rejected. The default for all methods except `GET`.
    Required,
    /// A key is used if it is sent.
    Optional,
    /// The header is ignored. The default for `GET`.
    Off,
}

/// One route, as declared.
#[derive(Clone, Debug)]
pub struct RouteSpec {
    /// The method.
    pub method: Method,
    /// The path in axum's form: `/api/orders/{id}`.
    pub path: String,
    /// The callers that may use it.
    pub access: Access,
    /// One line for the API's description.
    pub summary: Option<String>,
    /// The schema that the body is checked against.
    pub request: Option<String>,
    /// The responses that it returns, besides problems.
    pub responses: Vec<ResponseSpec>,
    /// How it handles the `Idempotency-Key` header.
    pub idempotency: Idempotency,
    /// The largest body that it accepts, if not the server's default.
    pub max_body_bytes: Option<usize>,
}

impl RouteSpec {
    pub(super) fn new(method: Method, path: &str, access: Access) -> Self {
        let idempotency = match method {
            Method::GET => Idempotency::Off,
            _ => Idempotency::Required,
        };
        Self {
            method,
            path: path.to_owned(),
            access,
            summary: None,
            request: None,
            responses: Vec::new(),
            idempotency,
            max_body_bytes: None,
        }
    }

    /// Returns the declaration of the route that a request matched. Fails if the request was not routed by `Routes`.
    pub(crate) fn of(extensions: &Extensions) -> Result<&Arc<Self>, Problem> {
        extensions
            .get()
            .ok_or_else(|| Problem::internal("the handler's route was not declared with Routes; declare it there"))
    }

    /// Returns every schema that the route names: the request's, and those of its responses.
    pub(crate) fn schema_ids(&self) -> impl Iterator<Item = &str> {
        let responses = self.responses.iter().filter_map(|response| match &response.body {
            ResponseBody::Json(schema_id) => Some(schema_id.as_str()),
            ResponseBody::Empty | ResponseBody::Media(_) => None,
        });
        self.request.as_deref().into_iter().chain(responses)
    }
}

/// A declared response. A status with several kinds of bodies is declared several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseSpec {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: ResponseBody,
}

/// The body of a declared response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body.
    Empty,
    /// JSON that is valid under the schema with this `$id`.
    Json(String),
    /// Content of this media type, without parameters: `text/html`.
    Media(String),
}

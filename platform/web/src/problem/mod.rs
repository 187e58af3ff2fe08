//! Error responses: RFC 9457 `application/problem+json`.
//!
//! A [`Problem`] is a value that any error can become. The request's path and correlation id are unknown where it is
//! created; [`crate::observe`] adds them to the response and logs the cause under the request's span. The cause itself
//! never reaches the client.

pub mod codes;
mod convert;

pub use codes::ProblemCode;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use onceward_envelope::{CorrelationId, Violation};
use serde::Serialize;
use std::{error::Error, sync::Arc};

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// One error in the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// A JSON pointer into the request body; empty for the body as a whole.
    pub path: String,
    /// The rule that the input violates.
    pub message: String,
}

impl From<Violation> for FieldError {
    fn from(violation: Violation) -> Self {
        Self { path: violation.path, message: violation.message }
    }
}

/// Why a request failed, and what the client can do about it.
#[derive(Clone, Debug)]
pub struct Problem(Box<ProblemFields>);

#[derive(Clone, Debug)]
struct ProblemFields {
    code: ProblemCode,
    detail: Option<String>,
    errors: Vec<FieldError>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// The JSON document of a problem.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemDocument<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    /// Creates a problem with this code and without a detail.
    pub fn new(code: ProblemCode) -> Self {
        Self(Box::new(ProblemFields { code, detail: None, errors: Vec::new(), headers: Vec::new(), cause: None }))
    }

    /// Creates a problem for a failure of the server. `cause` is logged with the correlation id and never sent.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(codes::INTERNAL)
            .detail("The server failed. The cause is in its log under the correlation id.")
            .caused_by(cause)
    }

    /// Sets the description of this occurrence, for the client's developer.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds one error in the input.
    pub fn error(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.errors.push(FieldError { path: path.into(), message: message.into() });
        self
    }

    /// Adds several errors in the input.
    pub fn errors(mut self, errors: impl IntoIterator<Item = impl Into<FieldError>>) -> Self {
        self.0.errors.extend(errors.into_iter().map(Into::into));
        self
    }

    /// Sets the time after which the client may retry.
    pub fn retry_after_s(self, seconds: u32) -> Self {
        self.header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// Adds a response header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Attaches the cause for the log; it is not sent.
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into().into());
        self
    }

    /// Returns the problem code.
    pub fn code(&self) -> ProblemCode {
        self.0.code
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the cause, for the log.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// Returns the document, completed with the request's path and correlation id.
    pub(crate) fn document(&self, instance: Option<&str>, correlation_id: Option<&CorrelationId>) -> Vec<u8> {
        let document = ProblemDocument {
            r#type: format!("/problems/{}", self.0.code.code),
            title: self.0.code.title,
            status: self.0.code.status,
            code: self.0.code.code,
            detail: self.0.detail.as_deref(),
            instance,
            correlation_id: correlation_id.map(CorrelationId::as_str),
            errors: &self.0.errors,
        };
        serde_json::to_vec(&document).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.document(None, None)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
        for (name, value) in &self.0.headers {
            headers.append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_document_has_the_standard_fields_and_never_the_cause() {
        let problem =
            Problem::internal("SELECT secret FROM vault").error("/amount", "\"amount\" is required").retry_after_s(3);
        let id = CorrelationId::new("abc").unwrap();
        let document: Value = serde_json::from_slice(&problem.document(Some("/api/x"), Some(&id))).unwrap();
        assert_eq!(document["type"], "/problems/internal");
        assert_eq!(document["status"], 500);
        assert_eq!(document["instance"], "/api/x");
        assert_eq!(document["correlationId"], "abc");
        assert_eq!(document["errors"], json!([{"path": "/amount", "message": "\"amount\" is required"}]));
        assert!(!document.to_string().contains("vault"));
        let response = problem.into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "3");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}

//! Responses with pages: nothing is cached, and the address of a page is told to nobody.

use onceward::{
    Response, StatusCode,
    web::axum::{http::header, response::IntoResponse},
};

/// Responds with a page under a content security policy.
pub(crate) fn html_response(status: StatusCode, policy: &'static str, html: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, html).into_response()
}

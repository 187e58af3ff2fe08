//! The survey in a browser, page by page, without a script.
//!
//! ```text
//! GET  /s/{link}                start page               POST: starts a session, sets the cookie
//! GET  /s/session/{id}          the page that is due     POST: submits it; 422 shows it again with its faults
//! GET  /s/session/{id}?page=    an earlier page
//! POST /s/session/{id}/complete
//! ```
//!
//! A browser proves its session with a cookie that is sent only to that session's own path, is hidden from scripts, and
//! is not sent with forms of other sites. It starts a session with a key that both the start page's form and a cookie
//! contain (`start_key`). Every successful POST responds with a redirect, so that reloading repeats nothing. `start`
//! and `session` handle the requests, `fields` parses a form, `question` and `html` render one.
//!
//! Invariant: pages are subject to the same checks as the API, through the same commands.

mod cookie;
mod fields;
mod html;
mod question;
mod session;
mod start;
mod start_key;

use super::{SurveyContext, context::RespondentRequest};
use crate::{SurveyError, token::TokenError};
use onceward::{
    Idempotency,
    prelude::*,
    web::axum::{
        http::{HeaderValue, header},
        response::IntoResponse,
    },
};
use std::sync::Arc;

const STYLE: &str = include_str!("assets/survey.css");
/// Allows no scripts, and forms that submit to this site only.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

pub(super) fn routes() -> Routes<Arc<SurveyContext>> {
    Routes::new()
        .get("/s/{link}", Access::public(), start::show)
        .summary("Show the start page of a survey, with the token of a link or an invite.")
        .responds_media(200, "text/html")
        .post("/s/{link}", Access::public(), start::start)
        .summary("Start a session from the start page.")
        .responds_empty(303)
        .idempotency(Idempotency::Off)
        .get("/s/session/{session_id}", Access::public(), session::show)
        .summary("Show the next page of a session, or with `?page=` an earlier one.")
        .responds_media(200, "text/html")
        .post("/s/session/{session_id}", Access::public(), session::submit)
        .summary("Submit a page as a form.")
        .responds_empty(303)
        .responds_media(422, "text/html")
        .idempotency(Idempotency::Off)
        .post("/s/session/{session_id}/complete", Access::public(), session::complete)
        .summary("Complete a session from its last page.")
        .responds_empty(303)
        .idempotency(Idempotency::Off)
        .get("/s/assets/survey.css", Access::public(), style)
        .summary("The style sheet of the pages.")
        .responds_media(200, "text/css")
}

async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, STYLE).into_response()
}

fn page(status: StatusCode, html: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, html).into_response()
}

/// Redirects to another page and sets cookies.
fn see_other(path: &str, cookies: &[String]) -> Result<Response, Problem> {
    with_cookies((StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response(), cookies)
}

fn with_cookies(mut response: Response, cookies: &[String]) -> Result<Response, Problem> {
    for cookie in cookies {
        let value = HeaderValue::try_from(cookie).map_err(Problem::internal)?;
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(response)
}

/// Renders errors that a respondent can understand as a page; all others are returned as problems.
fn error_page(error: SurveyError) -> Result<Response, Problem> {
    let (status, title, text) = match &error {
        SurveyError::CollectorNotOpen(reason) => (StatusCode::CONFLICT, "This survey is not open", (*reason).to_owned()),
        SurveyError::OutdatedDefinition { .. } => {
            tracing::warn!(%error, "a published survey cannot be shown under the current rules");
            let text = "Its author must publish it again. The answers that you submitted are kept.".to_owned();
            (StatusCode::CONFLICT, "This survey cannot be shown at the moment", text)
        }
        SurveyError::InviteUsed => {
            (StatusCode::CONFLICT, "This invitation was already used", "Each invitation is valid once.".to_owned())
        }
        SurveyError::CrossSite => (
            StatusCode::FORBIDDEN,
            "This form was submitted from another site",
            "Nothing was saved. Open the survey with the link that you received.".to_owned(),
        ),
        SurveyError::InvalidStartPage => (
            StatusCode::FORBIDDEN,
            "Open the link again",
            "The start page has expired, or this browser does not accept cookies. Allow cookies for this site, and open the \
             link that you received again."
                .to_owned(),
        ),
        SurveyError::NotFound(_) => {
            (StatusCode::NOT_FOUND, "This survey does not exist", "Check whether the address is complete.".to_owned())
        }
        SurveyError::Token(TokenError::Invalid | TokenError::Expired) => (
            StatusCode::FORBIDDEN,
            "This address does not work here",
            "It is incomplete or has expired, or the survey was started in another browser. Start again from the link that \
             you received."
                .to_owned(),
        ),
        SurveyError::RateLimited { retry_after_s } => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many requests",
            format!("Wait {retry_after_s} seconds, then reload this page."),
        ),
        SurveyError::TooManyWaitingSteps => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The survey is busy at the moment",
            "Wait a few seconds, then reload this page.".to_owned(),
        ),
        _ => return Err(error.into()),
    };
    Ok(page(status, html::notice(title, &text)))
}

/// Returns technical problems unchanged; errors that a respondent can understand become a page.
fn to_response(result: Result<Response, PageError>) -> Result<Response, Problem> {
    match result {
        Ok(response) => Ok(response),
        Err(PageError::Survey(error)) => error_page(error),
        Err(PageError::Other(problem)) => Err(problem),
    }
}

/// Why a page cannot be shown.
enum PageError {
    Survey(SurveyError),
    Other(Problem),
}

impl<E: Into<SurveyError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self::Survey(error.into())
    }
}

/// Rejects forms submitted from another site, as reported by the browser. `Origin` is of no use here, because the
/// pages' own `Referrer-Policy` sets it to `null`.
fn reject_cross_site(request: &RespondentRequest) -> Result<(), SurveyError> {
    match request.header("sec-fetch-site") {
        Some("cross-site") => Err(SurveyError::CrossSite),
        _ => Ok(()),
    }
}

/// Returns the fields of the request's form.
fn form_fields(request: &RespondentRequest) -> fields::FormFields {
    fields::FormFields::parse(request.bytes())
}

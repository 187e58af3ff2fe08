//! The survey in a browser, page by page, without a script.
//!
//! ```text
//! GET  /s/{link}                start page               POST: begins, sets the cookie
//! GET  /s/session/{id}          the page that is due     POST: submits it; 422 shows it again with what is wrong
//! GET  /s/session/{id}?page=    one that came before
//! POST /s/session/{id}/complete
//! ```
//!
//! A browser proves its session by a cookie that is sent nowhere but to that session's own path, not shown to scripts, and not
//! sent along by other sites' forms. Every POST answers with a redirect, so that loading again repeats nothing. `begin` and
//! `fill` are the requests, `fields` reads a form, `question` and `html` write one.
//!
//! Invariant: pages pass the same gates as the API, by the same commands.

mod begin;
mod cookie;
mod fields;
mod fill;
mod html;
mod question;
mod store;

use super::{Desk, desk::Visit};
use crate::{SurveyError, token::TokenError};
use onceward::{
    Idempotency,
    prelude::*,
    web::axum::{
        extract::Query,
        http::{HeaderValue, header},
        response::IntoResponse,
    },
};
use std::sync::Arc;

const STYLE: &str = include_str!("assets/survey.css");
/// No scripts at all, and forms that are sent to us only.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

pub(super) fn routes(routes: Routes, desk: &Arc<Desk>) -> Routes {
    let [for_show, for_begin, for_page, for_submit, for_complete] = [(); 5].map(|()| desk.clone());
    routes
        .get("/s/{link}", Access::public(), move |path, visit| begin::show(path, visit, for_show.clone()))
        .summary("The first page of a survey, by the token of a link or an invite")
        .responds_empty(200)
        .post("/s/{link}", Access::public(), move |path, visit| begin::begin(path, visit, for_begin.clone()))
        .summary("Begin a session from the first page")
        .responds_empty(303)
        .idempotency(Idempotency::Off)
        .get("/s/session/{session_id}", Access::public(), move |path, query: Query<fill::Wanted>, visit| {
            fill::show(path, query, visit, for_page.clone())
        })
        .summary("The page of a session that is due, or with ?page= one before it")
        .responds_empty(200)
        .post("/s/session/{session_id}", Access::public(), move |path, visit| {
            fill::submit(path, visit, for_submit.clone())
        })
        .summary("Submit a page as a form")
        .responds_empty(303)
        .responds_empty(422)
        .idempotency(Idempotency::Off)
        .post("/s/session/{session_id}/complete", Access::public(), move |path, visit| {
            fill::complete(path, visit, for_complete.clone())
        })
        .summary("Complete a session from its last page")
        .responds_empty(303)
        .idempotency(Idempotency::Off)
        .get("/s/assets/survey.css", Access::public(), style)
        .summary("The pages' style")
        .responds_empty(200)
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

/// On to another page, with cookies.
fn see_other(path: &str, cookies: &[String]) -> Result<Response, Problem> {
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response();
    for cookie in cookies {
        let value = HeaderValue::try_from(cookie).map_err(Problem::internal)?;
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(response)
}

/// What a respondent can understand is a page; the rest is a problem like any other.
fn told(error: SurveyError) -> Result<Response, Problem> {
    let (status, title, text) = match &error {
        SurveyError::NotOpen(why) => (StatusCode::CONFLICT, "This survey is not open", format!("For now, {why}.")),
        SurveyError::InviteUsed => {
            (StatusCode::CONFLICT, "This invitation has been used", "Each is good for one time.".to_owned())
        }
        SurveyError::Missing(_) => {
            (StatusCode::NOT_FOUND, "There is no such survey", "Look whether the address is complete.".to_owned())
        }
        SurveyError::Token(TokenError::Invalid | TokenError::Expired) => (
            StatusCode::FORBIDDEN,
            "This address does not work here",
            "It is incomplete or has expired, or the survey was begun in another browser. Begin again from the link that you \
             were given."
                .to_owned(),
        ),
        SurveyError::TooMany { retry_after_s } => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many requests",
            format!("Wait {retry_after_s} seconds, and load this page again."),
        ),
        SurveyError::Crowded => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Many people are here at the moment",
            "Wait a few seconds, and load this page again.".to_owned(),
        ),
        _ => return Err(error.into()),
    };
    Ok(page(status, html::notice(title, &text)))
}

/// A problem of the machinery stays one; what a respondent can understand becomes a page.
fn shown(result: Result<Response, Failed>) -> Result<Response, Problem> {
    match result {
        Ok(response) => Ok(response),
        Err(Failed::Survey(error)) => told(error),
        Err(Failed::Other(problem)) => Err(problem),
    }
}

/// Why a page cannot be shown.
enum Failed {
    Survey(SurveyError),
    Other(Problem),
}

impl<E: Into<SurveyError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Survey(error.into())
    }
}

/// The fields of the request's form.
fn form(visit: &Visit) -> fields::Fields {
    fields::Fields::read(visit.bytes())
}

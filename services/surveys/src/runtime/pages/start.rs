//! The start page, and starting a session from it.

use super::{
    PageError, cookie, form_fields, html, page, reject_cross_site, see_other, start_key, to_response, with_cookies,
};
use crate::{
    SurveyError,
    runtime::{
        SurveyContext,
        commands::{self, StartOrigin},
        context::RespondentRequest,
        routes::session_token,
        store::collector_survey_title,
    },
    token::{TokenClaim, TokenError},
};
use jiff::Timestamp;
use onceward::{prelude::*, web::axum::extract::State};
use std::sync::Arc;
use uuid::Uuid;

pub(super) async fn show(
    State(context): State<Arc<SurveyContext>>,
    Path(link): Path<String>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    to_response(try_show(&link, &request, &context).await)
}

async fn try_show(link: &str, request: &RespondentRequest, context: &SurveyContext) -> Result<Response, PageError> {
    let claim = context.verify_token(link, request).await?;
    let (collector, _) = collector_and_invite(&claim)?;
    let tx = request.begin(&claim).await.map_err(PageError::Other)?;
    let title = collector_survey_title(&tx, collector).await?;
    tx.rollback().await?;
    let cookies = request.header("cookie").unwrap_or_default();
    let started = cookie::started_session(cookies).map(cookie::session_path);
    // The same page in two windows starts one session; a browser that starts again gets a new key.
    let now = Timestamp::now();
    let cookie_key = cookie::start_key(cookies).filter(|_| started.is_none());
    let key = match cookie_key {
        Some(key) if start_key::is_valid(&context.signer, link, key, now)? => key.to_owned(),
        _ => start_key::issue(&context.signer, link, now)?,
    };
    let response = page(StatusCode::OK, html::start(&title, link, &key, started.as_deref()));
    let cookie = cookie::start_cookie(&key, link, start_key::VALID_FOR_S, is_secure(request));
    with_cookies(response, &[cookie]).map_err(PageError::Other)
}

pub(super) async fn start(
    State(context): State<Arc<SurveyContext>>,
    Path(link): Path<String>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    to_response(try_start(&link, &request, &context).await)
}

async fn try_start(link: &str, request: &RespondentRequest, context: &SurveyContext) -> Result<Response, PageError> {
    reject_cross_site(request)?;
    let claim = context.verify_token(link, request).await?;
    let (collector, invite) = collector_and_invite(&claim)?;
    let fields = form_fields(request);
    let key = fields.get("key").unwrap_or_default();
    let cookie_key = request.header("cookie").and_then(cookie::start_key);
    if cookie_key != Some(key) || !start_key::is_valid(&context.signer, link, key, Timestamp::now())? {
        return Err(SurveyError::InvalidStartPage.into());
    }
    let mut tx = request.begin(&claim).await.map_err(PageError::Other)?;
    let digest = commands::start_digest(StartOrigin::Page, collector, invite, key);
    let started = commands::start(&mut tx, context, collector, invite, &digest).await?;
    let tenant = claim.tenant()?;
    let token = session_token(context, tenant.as_str(), &started, collector).map_err(PageError::Other)?;
    tx.commit().await?;
    let cookies = cookie::session_cookies(
        started.session_id,
        &token,
        link,
        context.settings.session_token_hours,
        is_secure(request),
    );
    see_other(&cookie::session_path(started.session_id), &cookies).map_err(PageError::Other)
}

/// Returns whether the site is behind TLS.
fn is_secure(request: &RespondentRequest) -> bool {
    request.header("x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

fn collector_and_invite(claim: &TokenClaim) -> Result<(Uuid, Option<Uuid>), SurveyError> {
    match claim {
        TokenClaim::Collector { collector, .. } => Ok((*collector, None)),
        TokenClaim::Invite { collector, invite, .. } => Ok((*collector, Some(*invite))),
        TokenClaim::Session(_) => Err(TokenError::Invalid.into()),
    }
}

//! The respondents' HTTP routes. They are public: a token authenticates the respondent.

use super::{
    SurveyContext,
    commands::{self, SessionStep, StartOrigin, StartedSession},
    context::RespondentRequest,
    pages, store, view,
};
use crate::{
    SurveyError,
    events::TerminationReason,
    token::{SessionClaim, TokenClaim, TokenError},
};
use jiff::{SignedDuration, Timestamp};
use onceward::{
    Idempotency,
    prelude::*,
    web::axum::{Json, extract::State, response::IntoResponse},
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

const KEY_BYTES: usize = 255;
/// The minimum number of base64url characters that can hold 128 bits.
const RANDOM_KEY_BYTES: usize = 22;

pub(crate) fn routes() -> Routes<Arc<SurveyContext>> {
    pages::routes()
        .post("/runtime/start", Access::public(), start)
        .summary("Start a session with the token of a link or an invite. Repeating the Idempotency-Key, which must be random on a link, returns the same session.")
        .responds(201, "session.begun.v1")
        .responds(200, "session.begun.v1")
        .get("/runtime/{session_id}", Access::public(), show)
        .summary("Resume a session: returns the next page, the answers so far and the progress.")
        .responds(200, "session.view.v1")
        .post("/runtime/{session_id}/answers", Access::public(), submit)
        .summary("Submit a page. Repeating an attempt returns the same response.")
        .request("page.submit.v1")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
        .post("/runtime/{session_id}/complete", Access::public(), complete)
        .summary("Complete a session.")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
        .post("/runtime/{session_id}/terminate", Access::public(), end)
        .summary("End a session before it is complete.")
        .request("session.end.v1")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
}

async fn start(State(context): State<Arc<SurveyContext>>, request: RespondentRequest) -> Result<Response, Problem> {
    let key = request.header("idempotency-key").filter(|key| (1..=KEY_BYTES).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Problem::new(codes::KEY_MISSING)
            .detail("Send the header `Idempotency-Key`, and the same value when you repeat the request.")
    })?;
    let claim = context.verify_bearer(&request).await?;
    let (tenant, collector, invite) = match &claim {
        TokenClaim::Collector { tenant, collector } => (tenant, *collector, None),
        TokenClaim::Invite { tenant, collector, invite } => (tenant, *collector, Some(*invite)),
        TokenClaim::Session(_) => return Err(SurveyError::Token(TokenError::Invalid).into()),
    };
    // An invite belongs to one person. A link is shared, so the key that distinguishes its sessions must not be
    // guessable.
    if invite.is_none() && !may_hold_128_bits(key) {
        return Err(SurveyError::GuessableStartKey.into());
    }
    let digest = commands::start_digest(StartOrigin::Api, collector, invite, key);
    let mut tx = request.begin(&claim).await?;
    let started = commands::start(&mut tx, &context, collector, invite, &digest).await?;
    let session = store::read_session(&tx, started.session_id, "").await?;
    if invite.is_none() && !started.is_recent && !session.answers.is_empty() {
        return Err(SurveyError::SessionAlreadyStarted.into());
    }
    let questionnaire = context.cache.questionnaire(&tx, session.survey_id, session.version).await?;
    let token = session_token(&context, tenant, &started, collector)?;
    tx.commit().await?;
    let mut body = view::state(&questionnaire, &session);
    body["token"] = token.into();
    let status = if started.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(body)).into_response())
}

fn may_hold_128_bits(key: &str) -> bool {
    key.len() >= RANDOM_KEY_BYTES && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Issues the token with which the bearer continues the session.
pub(super) fn session_token(
    context: &SurveyContext,
    tenant: &str,
    started: &StartedSession,
    collector: Uuid,
) -> Result<String, Problem> {
    let hours = i64::from(context.settings.session_token_hours);
    let expires_at = Timestamp::now().saturating_add(SignedDuration::from_hours(hours)).map_err(Problem::internal)?;
    let claim = SessionClaim {
        tenant: tenant.to_owned(),
        survey: started.survey_id,
        collector,
        session: started.session_id,
        expires_at: expires_at.as_second(),
    };
    Ok(context.signer.sign(&TokenClaim::Session(claim)).map_err(SurveyError::from)?)
}

async fn show(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    let tx = request.begin(&context.verify_session(&request, session_id).await?).await?;
    let session = store::read_session(&tx, session_id, "").await?;
    let questionnaire = context.cache.questionnaire(&tx, session.survey_id, session.version).await?;
    tx.rollback().await?;
    Ok(json_response(&view::state_with_answers(&questionnaire, &session)))
}

async fn submit(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    let claim = context.verify_session(&request, session_id).await?;
    let step = SessionStep::submit(request.body()?)?;
    Ok(json_response(&context.execute_step(&request, &claim, session_id, step).await?))
}

async fn complete(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    let claim = context.verify_session(&request, session_id).await?;
    Ok(json_response(&context.execute_step(&request, &claim, session_id, SessionStep::Complete).await?))
}

#[derive(Deserialize)]
struct EndRequest {
    reason: TerminationReason,
}

async fn end(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    let claim = context.verify_session(&request, session_id).await?;
    let EndRequest { reason } = request.body()?;
    Ok(json_response(&context.execute_step(&request, &claim, session_id, SessionStep::Terminate(reason)).await?))
}

fn json_response(body: &Value) -> Response {
    Json(body).into_response()
}

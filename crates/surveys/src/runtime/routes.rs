//! The respondent's HTTP surface. Routes are public: what proves a respondent is their token.

use super::{
    Desk,
    commands::{self, Begun, Step},
    desk::Visit,
    pages, store, view,
};
use crate::{
    SurveyError,
    events::TerminationReason,
    token::{Claim, SessionClaim, TokenError},
};
use jiff::{SignedDuration, Timestamp};
use onceward::{
    Idempotency,
    prelude::*,
    web::axum::{Json, response::IntoResponse},
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

const KEY_BYTES: usize = 255;

pub(crate) fn routes(routes: Routes, desk: &Arc<Desk>) -> Routes {
    let routes = pages::routes(routes, desk);
    let [for_start, for_show, for_submit, for_complete, for_end] = [(); 5].map(|()| desk.clone());
    routes
        .post("/runtime/start", Access::public(), move |visit| start(visit, for_start.clone()))
        .summary("Begin a session by the token of a link or an invite; the same Idempotency-Key is the same session")
        .responds(201, "session.begun.v1")
        .responds(200, "session.begun.v1")
        .get("/runtime/{session_id}", Access::public(), move |path, visit| show(path, visit, for_show.clone()))
        .summary("Go on with a session: the page that comes next, the answers so far, the progress")
        .responds(200, "session.view.v1")
        .post("/runtime/{session_id}/answers", Access::public(), move |path, visit| {
            submit(path, visit, for_submit.clone())
        })
        .summary("Submit a page; the same attempt is the same submit")
        .request("page.submit.v1")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
        .post("/runtime/{session_id}/complete", Access::public(), move |path, visit| {
            complete(path, visit, for_complete.clone())
        })
        .summary("Complete a session")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
        .post("/runtime/{session_id}/terminate", Access::public(), move |path, visit| end(path, visit, for_end.clone()))
        .summary("End a session before its end")
        .request("session.end.v1")
        .responds(200, "session.view.v1")
        .idempotency(Idempotency::Off)
}

async fn start(visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    let key = visit.header("idempotency-key").filter(|key| (1..=KEY_BYTES).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Problem::new(codes::KEY_MISSING).detail("Send the header Idempotency-Key, the same for every repetition.")
    })?;
    let claim = desk.claim(&visit)?;
    let (tenant, collector, invite) = match &claim {
        Claim::Collector { tenant, collector } => (tenant, *collector, None),
        Claim::Invite { tenant, collector, invite } => (tenant, *collector, Some(*invite)),
        Claim::Session(_) => return Err(SurveyError::Token(TokenError::Invalid).into()),
    };
    let digest = commands::start_digest(collector, invite, key);
    let mut tx = visit.begin(&claim).await?;
    let begun = commands::start(&mut tx, &desk, collector, invite, &digest).await?;
    let session = store::read_session(&tx, begun.session_id, "").await?;
    let form = desk.cache.form(&tx, session.survey_id, session.version).await?;
    let token = session_token(&desk, tenant, &begun, collector)?;
    tx.commit().await?;
    let mut body = view::whole(&form, &session);
    body["token"] = token.into();
    let status = if begun.fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(body)).into_response())
}

/// What the bearer goes on with.
pub(super) fn session_token(desk: &Desk, tenant: &str, begun: &Begun, collector: Uuid) -> Result<String, Problem> {
    let hours = i64::from(desk.settings.session_token_hours);
    let until = Timestamp::now().saturating_add(SignedDuration::from_hours(hours)).map_err(Problem::internal)?;
    let claim = SessionClaim {
        tenant: tenant.to_owned(),
        survey: begun.survey_id,
        collector,
        session: begun.session_id,
        until: until.as_second(),
    };
    Ok(desk.signer.sign(&Claim::Session(claim)).map_err(SurveyError::from)?)
}

async fn show(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    let tx = visit.begin(&desk.session(&visit, session_id)?).await?;
    let session = store::read_session(&tx, session_id, "").await?;
    let form = desk.cache.form(&tx, session.survey_id, session.version).await?;
    tx.rollback().await?;
    Ok(answer(&view::whole(&form, &session)))
}

async fn submit(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    let claim = desk.session(&visit, session_id)?;
    let step = Step::submit(visit.body()?)?;
    Ok(answer(&desk.pass(&visit, &claim, session_id, step).await?))
}

async fn complete(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    let claim = desk.session(&visit, session_id)?;
    Ok(answer(&desk.pass(&visit, &claim, session_id, Step::Complete).await?))
}

#[derive(Deserialize)]
struct End {
    reason: TerminationReason,
}

async fn end(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    let claim = desk.session(&visit, session_id)?;
    let End { reason } = visit.body()?;
    Ok(answer(&desk.pass(&visit, &claim, session_id, Step::Terminate(reason)).await?))
}

fn answer(body: &Value) -> Response {
    Json(body).into_response()
}

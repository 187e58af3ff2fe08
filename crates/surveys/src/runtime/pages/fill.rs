//! A session's pages: shown, submitted, completed.

use super::{Failed, cookie, form, html, page, see_other, shown, store};
use crate::{
    SurveyError,
    definition::{AnswerFault, Form, Stop, Way},
    runtime::{
        Desk,
        commands::{PageSubmit, Step},
        desk::Visit,
        store::{Session, Status, read_session},
    },
    token::{Claim, TokenError},
};
use onceward::{Tx, prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

/// Which page is to be shown, if not the one that is due.
#[derive(Deserialize)]
pub(super) struct Wanted {
    page: Option<String>,
}

pub(super) async fn show(
    Path(session_id): Path<Uuid>,
    Query(wanted): Query<Wanted>,
    visit: Visit,
    desk: Arc<Desk>,
) -> Result<Response, Problem> {
    shown(try_show(session_id, wanted.page.as_deref(), &visit, &desk).await)
}

async fn try_show(session_id: Uuid, wanted: Option<&str>, visit: &Visit, desk: &Desk) -> Result<Response, Failed> {
    let tx = visit.begin(&enter(session_id, visit, desk)?).await.map_err(Failed::Other)?;
    let session = read_session(&tx, session_id, "").await?;
    let form = desk.cache.form(&tx, session.survey_id, session.version).await?;
    let title = store::title(&tx, session.survey_id).await?;
    let html = match session.status {
        Status::Active => {
            let way = form.way(&session.answers);
            match place(&form, &way, wanted) {
                Some(index) => {
                    let answers = session.answers.get(&form.page(index).id).cloned().unwrap_or_default();
                    let attempt = next_attempt(&tx, &session, &form, index).await?;
                    html::question_page(&sheet(&title, &session, &form, &way, index, attempt), &answers, &[])
                }
                None => html::last(&title, &cookie::session_path(session_id), back(&form, &way, None).as_deref()),
            }
        }
        ended => html::ended(&title, ended),
    };
    tx.rollback().await?;
    Ok(page(StatusCode::OK, html))
}

pub(super) async fn submit(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    shown(try_submit(session_id, &visit, &desk).await)
}

async fn try_submit(session_id: Uuid, visit: &Visit, desk: &Arc<Desk>) -> Result<Response, Failed> {
    let fields = form(visit);
    let claim = enter(session_id, visit, desk)?;
    let tx = visit.begin(&claim).await.map_err(Failed::Other)?;
    let session = read_session(&tx, session_id, "").await?;
    let form = desk.cache.form(&tx, session.survey_id, session.version).await?;
    // Nobody waits in line with a connection in hand.
    tx.rollback().await?;
    let page_id = fields.get("page").unwrap_or_default();
    let index = form.page_index(page_id).ok_or(SurveyError::Missing("page"))?;
    let attempt = fields.get("attempt").and_then(|number| number.parse().ok()).unwrap_or(1);
    let answers = fields.answers(form.page(index));
    let path = cookie::session_path(session_id);
    let step = Step::submit(PageSubmit { page_id: page_id.to_owned(), attempt, answers: answers.clone() })?;
    match desk.pass(visit, &claim, session_id, step).await {
        Ok(_) => see_other(&path, &[]).map_err(Failed::Other),
        Err(SurveyError::Answers(faults)) => {
            let tx = visit.begin(&claim).await.map_err(Failed::Other)?;
            let title = store::title(&tx, session.survey_id).await?;
            tx.rollback().await?;
            Ok(again(&title, &session, &form, index, attempt, &answers, &faults))
        }
        // Another window was quicker, or the session has ended: what is due now is shown.
        Err(SurveyError::Attempt(_) | SurveyError::Ended(_) | SurveyError::NotDue { .. }) => {
            see_other(&path, &[]).map_err(Failed::Other)
        }
        Err(error) => Err(error.into()),
    }
}

/// The page as it was sent, with what is wrong.
fn again(
    title: &str,
    session: &Session,
    form: &Form,
    index: usize,
    attempt: i32,
    answers: &Map<String, Value>,
    faults: &[AnswerFault],
) -> Response {
    let way = form.way(&session.answers);
    let html = html::question_page(&sheet(title, session, form, &way, index, attempt), answers, faults);
    page(StatusCode::UNPROCESSABLE_ENTITY, html)
}

pub(super) async fn complete(Path(session_id): Path<Uuid>, visit: Visit, desk: Arc<Desk>) -> Result<Response, Problem> {
    shown(try_complete(session_id, &visit, &desk).await)
}

async fn try_complete(session_id: Uuid, visit: &Visit, desk: &Arc<Desk>) -> Result<Response, Failed> {
    let claim = enter(session_id, visit, desk)?;
    match desk.pass(visit, &claim, session_id, Step::Complete).await {
        Ok(_) | Err(SurveyError::Ended(_) | SurveyError::Unanswered(_)) => {
            see_other(&cookie::session_path(session_id), &[]).map_err(Failed::Other)
        }
        Err(error) => Err(error.into()),
    }
}

/// The claim of the cookie, if it is that session's.
fn enter(session_id: Uuid, visit: &Visit, desk: &Desk) -> Result<Claim, SurveyError> {
    let token = visit.header("cookie").and_then(cookie::token).ok_or(TokenError::Invalid)?;
    Ok(desk.claim_by(token, visit)?.for_session(session_id)?)
}

/// The page to show: the one that is wanted, if it is due or came before, or else the one that is due.
fn place(form: &Form, way: &Way, wanted: Option<&str>) -> Option<usize> {
    let due = match way.stop {
        Stop::At(page) => Some(page),
        Stop::End | Stop::ScreenedOut => None,
    };
    let wanted = wanted.and_then(|id| form.page_index(id)).filter(|page| way.pages.contains(page));
    wanted.or(due)
}

async fn next_attempt(tx: &Tx, session: &Session, form: &Form, index: usize) -> Result<i32, SurveyError> {
    let last = read_session(tx, session.session_id, &form.page(index).id).await?.last;
    Ok(last.map_or(0, |last| last.attempt).saturating_add(1))
}

fn sheet<'f>(
    title: &'f str,
    session: &Session,
    form: &'f Form,
    way: &Way,
    index: usize,
    attempt: i32,
) -> html::Sheet<'f> {
    let (done, left) = (way.pages.len(), form.pages_left(way));
    html::Sheet {
        title,
        page: form.page(index),
        attempt,
        path: cookie::session_path(session.session_id),
        back: back(form, way, Some(index)),
        percent: (done * 100).checked_div(done + left).unwrap_or(0),
    }
}

/// The page before `index` on the way; before the end, the last one.
fn back(form: &Form, way: &Way, index: Option<usize>) -> Option<String> {
    let at = index.and_then(|index| way.pages.iter().position(|page| *page == index)).unwrap_or(way.pages.len());
    let before = way.pages.get(at.checked_sub(1)?)?;
    Some(form.page(*before).id.clone())
}

//! Shows, submits and completes a session's pages.

use super::{PageError, cookie, form_fields, html, page, reject_cross_site, see_other, to_response};
use crate::{
    SurveyError,
    definition::{
        AnswerFault, PathEnd, Questionnaire, SurveyPath,
        size::{ANSWERS_BYTES_MAX, answers_bytes},
    },
    runtime::{
        SurveyContext,
        commands::{PageSubmitRequest, SessionStep},
        context::RespondentRequest,
        store::{SessionStatus, SurveySession, read_session, survey_title},
    },
    token::{TokenClaim, TokenError},
};
use onceward::{
    Tx,
    prelude::*,
    web::axum::extract::{Query, State},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

/// The page to show, if not the one that is due.
#[derive(Deserialize)]
pub(super) struct ShowQuery {
    page: Option<String>,
}

pub(super) async fn show(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    Query(query): Query<ShowQuery>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    to_response(try_show(session_id, query.page.as_deref(), &request, &context).await)
}

async fn try_show(
    session_id: Uuid,
    requested: Option<&str>,
    request: &RespondentRequest,
    context: &SurveyContext,
) -> Result<Response, PageError> {
    let tx =
        request.begin(&verify_session_cookie(session_id, request, context).await?).await.map_err(PageError::Other)?;
    let session = read_session(&tx, session_id, "").await?;
    let questionnaire = context.cache.questionnaire(&tx, session.survey_id, session.version).await?;
    let title = survey_title(&tx, session.survey_id).await?;
    let html = match session.status {
        SessionStatus::Active => {
            let path = questionnaire.path(&session.answers);
            match page_to_show(&questionnaire, &path, requested) {
                Some(index) => {
                    let answers = session.answers.get(&questionnaire.page(index).id).cloned().unwrap_or_default();
                    let attempt = next_attempt(&tx, &session, &questionnaire, index).await?;
                    html::question_page(
                        &question_page(&title, &session, &questionnaire, &path, index, attempt),
                        &answers,
                        &[],
                    )
                }
                None => html::last(
                    &title,
                    &cookie::session_path(session_id),
                    previous_page(&questionnaire, &path, None).as_deref(),
                ),
            }
        }
        ended => html::ended(&title, ended),
    };
    tx.rollback().await?;
    Ok(page(StatusCode::OK, html))
}

pub(super) async fn submit(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    to_response(try_submit(session_id, &request, &context).await)
}

async fn try_submit(
    session_id: Uuid,
    request: &RespondentRequest,
    context: &Arc<SurveyContext>,
) -> Result<Response, PageError> {
    reject_cross_site(request)?;
    let fields = form_fields(request);
    let claim = verify_session_cookie(session_id, request, context).await?;
    let tx = request.begin(&claim).await.map_err(PageError::Other)?;
    let session = read_session(&tx, session_id, "").await?;
    let questionnaire = context.cache.questionnaire(&tx, session.survey_id, session.version).await?;
    // No request holds a connection while it waits in the queue of steps.
    tx.rollback().await?;
    let page_id = fields.get("page").unwrap_or_default();
    let index = questionnaire.page_index(page_id).ok_or(SurveyError::NotFound("page"))?;
    let attempt = fields.get("attempt").and_then(|number| number.parse().ok()).unwrap_or(1);
    let answers = fields.answers(questionnaire.page(index));
    let session_path = cookie::session_path(session_id);
    let step =
        SessionStep::submit(PageSubmitRequest { page_id: page_id.to_owned(), attempt, answers: answers.clone() })?;
    match context.execute_step(request, &claim, session_id, step).await {
        Ok(_) => see_other(&session_path, &[]).map_err(PageError::Other),
        Err(SurveyError::InvalidAnswers(faults)) => {
            let tx = request.begin(&claim).await.map_err(PageError::Other)?;
            let title = survey_title(&tx, session.survey_id).await?;
            tx.rollback().await?;
            Ok(page_with_faults(&title, &session, &questionnaire, index, attempt, &answers, &faults))
        }
        // Another window was faster, or the session has ended: redirect to what is due now.
        Err(SurveyError::AttemptConflict(_) | SurveyError::SessionEnded(_) | SurveyError::PageNotDue { .. }) => {
            see_other(&session_path, &[]).map_err(PageError::Other)
        }
        Err(error) => Err(error.into()),
    }
}

/// Renders the submitted page with its faults. Answers that are too long to be shown are replaced by a notice.
fn page_with_faults(
    title: &str,
    session: &SurveySession,
    questionnaire: &Questionnaire,
    index: usize,
    attempt: i32,
    answers: &Map<String, Value>,
    faults: &[AnswerFault],
) -> Response {
    let html = if answers_bytes(questionnaire.page(index), answers) > ANSWERS_BYTES_MAX {
        let reasons = faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ");
        let text = format!("Nothing was saved: {reasons}. Go back in your browser and submit the page again.");
        html::notice("Your answers are too long", &text)
    } else {
        let path = questionnaire.path(&session.answers);
        html::question_page(&question_page(title, session, questionnaire, &path, index, attempt), answers, faults)
    };
    page(StatusCode::UNPROCESSABLE_ENTITY, html)
}

pub(super) async fn complete(
    State(context): State<Arc<SurveyContext>>,
    Path(session_id): Path<Uuid>,
    request: RespondentRequest,
) -> Result<Response, Problem> {
    to_response(try_complete(session_id, &request, &context).await)
}

async fn try_complete(
    session_id: Uuid,
    request: &RespondentRequest,
    context: &Arc<SurveyContext>,
) -> Result<Response, PageError> {
    reject_cross_site(request)?;
    let claim = verify_session_cookie(session_id, request, context).await?;
    match context.execute_step(request, &claim, session_id, SessionStep::Complete).await {
        Ok(_) | Err(SurveyError::SessionEnded(_) | SurveyError::PageUnanswered(_)) => {
            see_other(&cookie::session_path(session_id), &[]).map_err(PageError::Other)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the claim of the cookie's token. Fails unless it is for this session.
async fn verify_session_cookie(
    session_id: Uuid,
    request: &RespondentRequest,
    context: &SurveyContext,
) -> Result<TokenClaim, SurveyError> {
    let token = request.header("cookie").and_then(cookie::token).ok_or(TokenError::Invalid)?;
    Ok(context.verify_token(token, request).await?.for_session(session_id)?)
}

/// Returns the index of the page to show: the requested one if it is due or an earlier one on the path, otherwise the one
/// that is due.
fn page_to_show(questionnaire: &Questionnaire, path: &SurveyPath, requested: Option<&str>) -> Option<usize> {
    let due = match path.end {
        PathEnd::AtPage(page) => Some(page),
        PathEnd::Finished | PathEnd::ScreenedOut => None,
    };
    let requested = requested.and_then(|id| questionnaire.page_index(id)).filter(|page| path.pages.contains(page));
    requested.or(due)
}

async fn next_attempt(
    tx: &Tx,
    session: &SurveySession,
    questionnaire: &Questionnaire,
    index: usize,
) -> Result<i32, SurveyError> {
    let last = read_session(tx, session.session_id, &questionnaire.page(index).id).await?.last;
    Ok(last.map_or(0, |last| last.attempt).saturating_add(1))
}

fn question_page<'q>(
    title: &'q str,
    session: &SurveySession,
    questionnaire: &'q Questionnaire,
    path: &SurveyPath,
    index: usize,
    attempt: i32,
) -> html::QuestionPage<'q> {
    let position = path.pages.iter().position(|page| *page == index).unwrap_or(path.pages.len());
    html::QuestionPage {
        title,
        page: questionnaire.page(index),
        attempt,
        session_path: cookie::session_path(session.session_id),
        previous: previous_page(questionnaire, path, Some(index)),
        number: position + 1,
        number_max: path.pages.len() + questionnaire.pages_left(path),
    }
}

/// Returns the id of the page before `index` on the path, or of the last page if `index` is `None`.
fn previous_page(questionnaire: &Questionnaire, path: &SurveyPath, index: Option<usize>) -> Option<String> {
    let position =
        index.and_then(|index| path.pages.iter().position(|page| *page == index)).unwrap_or(path.pages.len());
    let previous = path.pages.get(position.checked_sub(1)?)?;
    Some(questionnaire.page(*previous).id.clone())
}

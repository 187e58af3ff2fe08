//! Submits a page: checks its answers, follows its routes, and determines the places to reserve or release.

use super::{StepDecision, StepOutcome};
use crate::{
    SurveyError,
    definition::{PathEnd, Questionnaire},
    events::TerminationReason,
    quota::PlaceChanges,
    runtime::{
        SurveyContext,
        store::{LastSubmit, SessionStatus, SubmittedPage, SurveySession},
        view,
    },
};
use onceward::{Tx, envelope};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// A page as the respondent submits it.
#[derive(Deserialize)]
pub(in crate::runtime) struct PageSubmitRequest {
    pub page_id: String,
    /// Numbers the submits of this page, from 1. A repeated number means the same submit.
    pub attempt: i32,
    pub answers: Map<String, Value>,
}

/// Decides the submit of a page. The response contains the next page.
pub(super) async fn submit(
    tx: &Tx,
    context: &SurveyContext,
    mut session: SurveySession,
    request: &PageSubmitRequest,
    digest: [u8; 32],
) -> Result<StepOutcome, SurveyError> {
    let PageSubmitRequest { page_id, attempt, answers } = request;
    let questionnaire = context.cache.questionnaire(tx, session.survey_id, session.version).await?;
    if let Some(last) = session.last.take()
        && let Some(outcome) = repeated(last, *attempt, digest)?
    {
        return Ok(StepOutcome::Replay(view::with_page(&questionnaire, outcome)));
    }
    if session.status != SessionStatus::Active {
        return Err(SurveyError::SessionEnded(session.status.to_string()));
    }
    let page = page_on_path(&questionnaire, &session, page_id)?;
    let answers = questionnaire.check_page(page, answers).map_err(SurveyError::InvalidAnswers)?;
    session.answers.insert(page_id.clone(), answers);

    let path = questionnaire.path(&session.answers);
    let (status, changes) = match path.end {
        PathEnd::ScreenedOut => {
            (SessionStatus::Terminated(TerminationReason::ScreenedOut), PlaceChanges::on_end(&session.held))
        }
        PathEnd::AtPage(_) | PathEnd::Finished => {
            let buckets = context.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
            let changes = PlaceChanges::on_continue(&buckets, &session.held, &questionnaire, &path, &session.answers);
            (SessionStatus::Active, changes)
        }
    };
    let next = match path.end {
        PathEnd::AtPage(page) => Some((Some(questionnaire.page(page).id.clone()), page)),
        PathEnd::Finished => Some((None, questionnaire.definition().pages.len())),
        PathEnd::ScreenedOut => None,
    };
    let outcome = view::outcome(&questionnaire, status, &path);
    let response = view::with_page(&questionnaire, outcome.clone());
    let answers = session.answers.remove(page_id).unwrap_or_default();
    let submitted = SubmittedPage { page_id: page_id.clone(), attempt: *attempt, answers, digest, outcome };
    Ok(StepOutcome::Apply(Box::new(StepDecision {
        session,
        status,
        changes,
        submitted: Some((submitted, page)),
        next,
        page_id: Some(page_id.clone()),
        pages: path.pages.len(),
        response,
    })))
}

/// Returns the stored outcome if this submit repeats the last one, and `None` if it is a new attempt. Fails if the
/// attempt was used with other answers, or a later one was accepted.
fn repeated(last: LastSubmit, attempt: i32, digest: [u8; 32]) -> Result<Option<Value>, SurveyError> {
    match attempt.cmp(&last.attempt) {
        Ordering::Equal if last.digest == digest => Ok(Some(last.outcome)),
        Ordering::Equal => Err(SurveyError::AttemptConflict(
            "This attempt was already used with different answers. Use the next attempt number.",
        )),
        Ordering::Less => Err(SurveyError::AttemptConflict("A later attempt was already accepted.")),
        Ordering::Greater => Ok(None),
    }
}

/// Returns the page's index. Fails unless the page is next or an earlier one on the respondent's path.
fn page_on_path(questionnaire: &Questionnaire, session: &SurveySession, page_id: &str) -> Result<usize, SurveyError> {
    let path = questionnaire.path(&session.answers);
    let is_on_path = |page: &usize| path.end == PathEnd::AtPage(*page) || path.pages.contains(page);
    questionnaire.page_index(page_id).filter(is_on_path).ok_or_else(|| SurveyError::PageNotDue {
        submitted: page_id.to_owned(),
        due: match path.end {
            PathEnd::AtPage(page) => format!("Page {:?} is next.", questionnaire.page(page).id),
            PathEnd::Finished | PathEnd::ScreenedOut => "Every page is answered; complete the session.".to_owned(),
        },
    })
}

/// Returns a digest that is equal for equal answers, regardless of formatting.
pub(super) fn digest(answers: &Map<String, Value>) -> Result<[u8; 32], SurveyError> {
    let text = envelope::canonical::to_string(&json!(answers));
    let text = text.map_err(|error| SurveyError::NotAllowed(format!("The answers cannot be stored: {error}.")))?;
    Ok(envelope::fingerprint(text))
}

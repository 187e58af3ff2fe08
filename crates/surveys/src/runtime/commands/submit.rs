//! Submits a page: its rules, where it leads, the places that its answers want or give back.

use super::tell_terminated;
use crate::{
    SurveyError,
    definition::{Form, Stop},
    events::{AnswerUpserted, TerminationReason, publish},
    quota::{self, Moves},
    runtime::{
        Desk,
        store::{self, Session, Status, Submit},
        view,
    },
};
use onceward::{Tx, envelope};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// A page as it is submitted.
#[derive(Deserialize)]
pub(in crate::runtime) struct PageSubmit {
    pub page_id: String,
    /// Counts the submits of this page, from 1. The same number is the same submit.
    pub attempt: i32,
    pub answers: Map<String, Value>,
}

/// Gives the outcome with the next page.
pub(in crate::runtime) async fn submit(
    tx: &mut Tx,
    desk: &Desk,
    session_id: Uuid,
    given: PageSubmit,
) -> Result<Value, SurveyError> {
    let PageSubmit { page_id, attempt, answers: given } = given;
    let digest = digest(&given)?;
    let mut session = store::open_session(tx, session_id, &page_id).await?;
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    if let Some(last) = session.last.take() {
        match attempt.cmp(&last.attempt) {
            std::cmp::Ordering::Equal if last.digest == digest => return Ok(view::with_page(&form, last.outcome)),
            std::cmp::Ordering::Equal => {
                return Err(SurveyError::Attempt("this attempt was taken with other answers: use the next number"));
            }
            std::cmp::Ordering::Less => return Err(SurveyError::Attempt("a later attempt has been taken already")),
            std::cmp::Ordering::Greater => {}
        }
    }
    if session.status != Status::Active {
        return Err(SurveyError::Ended(view::ending(session.status).to_string()));
    }
    let page = page_on_the_way(&form, &session, &page_id)?;
    let answers = form.read_page(page, &given).map_err(SurveyError::Answers)?;
    let question_count = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    session.answers.insert(page_id.clone(), answers.clone());

    let way = form.way(&session.answers);
    let (status, moves) = match way.stop {
        Stop::ScreenedOut => (Status::Terminated(TerminationReason::ScreenedOut), Moves::ending(&session.held)),
        Stop::At(_) | Stop::End => (Status::Active, moves(tx, desk, &session, &form).await?),
    };
    let outcome = view::outcome(&form, status, &way);
    let full = Status::Terminated(TerminationReason::QuotaFull);
    let outcome_full = view::ending(full);
    let row = Submit {
        page_id: &page_id,
        attempt,
        answers: &answers,
        digest: &digest,
        outcome: &outcome,
        outcome_full: &outcome_full,
    };
    let places = store::submit(tx, session_id, status, &moves, row, &desk.settings).await?;

    let &Session { survey_id, collector_id, .. } = &session;
    let page_index = u32::try_from(page).unwrap_or(u32::MAX);
    let told = AnswerUpserted { session_id, survey_id, collector_id, page_id, page_index, question_count };
    publish(tx, &told).await?;
    quota::tell(tx, survey_id, session_id, &places.moved).await?;
    let (status, outcome) = if places.full { (full, outcome_full) } else { (status, outcome) };
    if let Some(reason) = status.reason() {
        tell_terminated(tx, &session, reason, Some(told.page_id)).await?;
    }
    Ok(view::with_page(&form, outcome))
}

async fn moves(tx: &Tx, desk: &Desk, session: &Session, form: &Arc<Form>) -> Result<Moves, SurveyError> {
    let buckets = desk.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
    let way = form.way(&session.answers);
    Ok(Moves::going_on(&buckets, &session.held, form, &way, &session.answers))
}

/// The page's place, if it comes next or came before on this way.
fn page_on_the_way(form: &Form, session: &Session, page_id: &str) -> Result<usize, SurveyError> {
    let way = form.way(&session.answers);
    let page = form.page_index(page_id).filter(|page| way.stop == Stop::At(*page) || way.pages.contains(page));
    page.ok_or_else(|| SurveyError::NotDue {
        given: page_id.to_owned(),
        due: match way.stop {
            Stop::At(page) => format!("page {:?} comes next", form.page(page).id),
            Stop::End | Stop::ScreenedOut => "every page is answered: complete the session".to_owned(),
        },
    })
}

/// Equal answers have equal digests, however they are written.
fn digest(answers: &Map<String, Value>) -> Result<[u8; 32], SurveyError> {
    let text = envelope::canonical::to_string(&json!(answers));
    let text = text.map_err(|error| SurveyError::Refused(format!("the answers cannot be read: {error}")))?;
    Ok(envelope::fingerprint(text))
}

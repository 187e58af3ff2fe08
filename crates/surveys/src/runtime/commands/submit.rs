//! Submits a page: its rules, where it leads, the places that its answers want or give back.

use super::{Decision, Verdict};
use crate::{
    SurveyError,
    definition::{Form, Stop},
    events::TerminationReason,
    quota::Moves,
    runtime::{
        Desk,
        store::{Session, Status, Submit},
        view,
    },
};
use onceward::{Tx, envelope};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// A page as it is submitted.
#[derive(Deserialize)]
pub(in crate::runtime) struct PageSubmit {
    pub page_id: String,
    /// Counts the submits of this page, from 1. The same number is the same submit.
    pub attempt: i32,
    pub answers: Map<String, Value>,
}

/// The outcome names the next page.
pub(super) async fn submit(
    tx: &Tx,
    desk: &Desk,
    mut session: Session,
    given: &PageSubmit,
    digest: [u8; 32],
) -> Result<Verdict, SurveyError> {
    let &PageSubmit { ref page_id, attempt, answers: ref given } = given;
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    if let Some(last) = session.last.take() {
        match attempt.cmp(&last.attempt) {
            Ordering::Equal if last.digest == digest => {
                return Ok(Verdict::Known(view::with_page(&form, last.outcome)));
            }
            Ordering::Equal => {
                return Err(SurveyError::Attempt("this attempt was taken with other answers: use the next number"));
            }
            Ordering::Less => return Err(SurveyError::Attempt("a later attempt has been taken already")),
            Ordering::Greater => {}
        }
    }
    if session.status != Status::Active {
        return Err(SurveyError::Ended(view::ending(session.status).to_string()));
    }
    let page = page_on_the_way(&form, &session, page_id)?;
    let answers = form.read_page(page, given).map_err(SurveyError::Answers)?;
    session.answers.insert(page_id.clone(), answers);

    let way = form.way(&session.answers);
    let (status, moves) = match way.stop {
        Stop::ScreenedOut => (Status::Terminated(TerminationReason::ScreenedOut), Moves::ending(&session.held)),
        Stop::At(_) | Stop::End => {
            let buckets = desk.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
            (Status::Active, Moves::going_on(&buckets, &session.held, &form, &way, &session.answers))
        }
    };
    let outcome = view::outcome(&form, status, &way);
    let answer = view::with_page(&form, outcome.clone());
    let answers = session.answers.remove(page_id).unwrap_or_default();
    let submit = Submit { page_id: page_id.clone(), attempt, answers, digest, outcome };
    Ok(Verdict::Decided(Box::new(Decision {
        session,
        status,
        moves,
        submit: Some((submit, page)),
        page_id: Some(page_id.clone()),
        pages: way.pages.len(),
        answer,
    })))
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
pub(super) fn digest(answers: &Map<String, Value>) -> Result<[u8; 32], SurveyError> {
    let text = envelope::canonical::to_string(&json!(answers));
    let text = text.map_err(|error| SurveyError::Refused(format!("the answers cannot be read: {error}")))?;
    Ok(envelope::fingerprint(text))
}

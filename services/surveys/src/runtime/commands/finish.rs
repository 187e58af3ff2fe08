//! Completes or terminates a session.

use super::{StepDecision, StepOutcome};
use crate::{
    SurveyError,
    definition::PathEnd,
    events::TerminationReason,
    quota::PlaceChanges,
    runtime::{
        SurveyContext,
        store::{SessionStatus, SurveySession},
        view,
    },
};
use onceward::Tx;

/// Decides a completion: all places of the session are filled, or it ends because a quota is full. Fails if pages are
/// still to be answered, or if the session has ended in another way.
pub(super) async fn complete(
    tx: &Tx,
    context: &SurveyContext,
    session: SurveySession,
) -> Result<StepOutcome, SurveyError> {
    match session.status {
        SessionStatus::Active => {}
        // A repeated request gets the same response, including the one for a full quota.
        SessionStatus::Completed | view::QUOTA_FULL => return Ok(StepOutcome::Replay(view::ending(session.status))),
        ended => return Err(SurveyError::SessionEnded(ended.to_string())),
    }
    let questionnaire = context.cache.questionnaire(tx, session.survey_id, session.version).await?;
    let path = questionnaire.path(&session.answers);
    if let PathEnd::AtPage(page) = path.end {
        return Err(SurveyError::PageUnanswered(questionnaire.page(page).id.clone()));
    }
    let buckets = context.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
    let changes = PlaceChanges::on_complete(&buckets, &session.held, &questionnaire, &path, &session.answers);
    Ok(StepOutcome::Apply(Box::new(StepDecision {
        session,
        status: SessionStatus::Completed,
        changes,
        submitted: None,
        next: None,
        page_id: path.pages.last().map(|page| questionnaire.page(*page).id.clone()),
        pages: path.pages.len(),
        response: view::ending(SessionStatus::Completed),
    })))
}

/// Decides the end of a session whose respondent leaves. Fails if the session was completed.
pub(super) async fn terminate(
    tx: &Tx,
    context: &SurveyContext,
    session: SurveySession,
    reason: TerminationReason,
) -> Result<StepOutcome, SurveyError> {
    match session.status {
        SessionStatus::Active => {}
        SessionStatus::Terminated(_) => return Ok(StepOutcome::Replay(view::ending(session.status))),
        SessionStatus::Completed => return Err(SurveyError::SessionEnded(session.status.to_string())),
    }
    let questionnaire = context.cache.questionnaire(tx, session.survey_id, session.version).await?;
    let path = questionnaire.path(&session.answers);
    let page_id = match path.end {
        PathEnd::AtPage(page) => Some(questionnaire.page(page).id.clone()),
        PathEnd::Finished | PathEnd::ScreenedOut => None,
    };
    let status = SessionStatus::Terminated(reason);
    Ok(StepOutcome::Apply(Box::new(StepDecision {
        changes: PlaceChanges::on_end(&session.held),
        session,
        status,
        submitted: None,
        next: None,
        page_id,
        pages: path.pages.len(),
        response: view::ending(status),
    })))
}

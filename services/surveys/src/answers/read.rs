//! Sessions as readers of answers see them: by question, and only the answers that count.

use super::store::SessionAnswers;
use crate::{SurveyError, runtime::SurveyContext};
use onceward::Tx;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Returns a session's answers by question. Answers on pages that are no longer on the respondent's path do not count
/// and are omitted; if the version can no longer be used, all answers are returned.
pub(super) async fn by_question(
    tx: &Tx,
    context: &SurveyContext,
    survey_id: Uuid,
    session: &SessionAnswers,
) -> Result<Map<String, Value>, SurveyError> {
    let questionnaire = match context.cache.questionnaire(tx, survey_id, session.version).await {
        Ok(questionnaire) => Some(questionnaire),
        Err(SurveyError::OutdatedDefinition { .. }) => None,
        Err(error) => return Err(error),
    };
    let counted_pages = questionnaire.map(|questionnaire| {
        let path = questionnaire.path(&session.answers);
        path.pages.iter().map(|page| questionnaire.page(*page).id.clone()).collect::<Vec<_>>()
    });
    let pages =
        session.answers.iter().filter(|(page, _)| counted_pages.as_ref().is_none_or(|counted| counted.contains(page)));
    Ok(pages.flat_map(|(_, answers)| answers.clone()).collect())
}

/// Returns the session as JSON.
pub(super) fn to_json(session: &SessionAnswers, answers: Map<String, Value>) -> Value {
    json!({
        "session_id": session.session_id,
        "collector_id": session.collector_id,
        "version": session.version,
        "status": session.status,
        "reason": session.reason,
        "ref": session.external_ref,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "erased_at": session.erased_at,
        "answers": answers,
    })
}

//! A session as its respondent sees it.

use super::store::{SessionStatus, SurveySession};
use crate::{
    definition::{PathEnd, Questionnaire, SurveyPath},
    events::TerminationReason,
};
use serde_json::{Map, Value, json};

/// The final status of a session that finds a bucket full.
pub(super) const QUOTA_FULL: SessionStatus = SessionStatus::Terminated(TerminationReason::QuotaFull);

/// Returns the outcome of a submitted page. It is small, because it is stored for repeated requests.
pub(super) fn outcome(questionnaire: &Questionnaire, status: SessionStatus, path: &SurveyPath) -> Value {
    match (status, path.end) {
        (SessionStatus::Active, PathEnd::AtPage(page)) => {
            json!({"status": "active", "next": "page", "page_id": questionnaire.page(page).id, "progress": progress(questionnaire, path)})
        }
        (SessionStatus::Active, _) => {
            json!({"status": "active", "next": "complete", "progress": progress(questionnaire, path)})
        }
        (ended, _) => ending(ended),
    }
}

/// Returns the view of a session that has ended.
pub(super) fn ending(status: SessionStatus) -> Value {
    match status.reason() {
        Some(reason) => json!({"status": status.as_str(), "reason": reason}),
        None => json!({"status": status.as_str()}),
    }
}

/// Returns an outcome with the content of the page that it names.
pub(super) fn with_page(questionnaire: &Questionnaire, mut outcome: Value) -> Value {
    let page = outcome.get("page_id").and_then(Value::as_str).and_then(|id| questionnaire.page_index(id));
    if let (Some(page), Some(fields)) = (page, outcome.as_object_mut()) {
        fields.remove("page_id");
        fields.insert("page".to_owned(), page_content(questionnaire, page));
    }
    outcome
}

/// Returns the state of the session, without its answers.
pub(super) fn state(questionnaire: &Questionnaire, session: &SurveySession) -> Value {
    let path = questionnaire.path(&session.answers);
    let mut view = with_page(questionnaire, outcome(questionnaire, session.status, &path));
    view["session_id"] = json!(session.session_id);
    view
}

/// Returns the whole session: its state and the answers that count.
pub(super) fn state_with_answers(questionnaire: &Questionnaire, session: &SurveySession) -> Value {
    let path = questionnaire.path(&session.answers);
    let mut view = state(questionnaire, session);
    let counted = path.pages.iter().filter_map(|page| {
        let id = &questionnaire.page(*page).id;
        Some((id.clone(), Value::Object(session.answers.get(id)?.clone())))
    });
    view["answers"] = Value::Object(counted.collect::<Map<_, _>>());
    view
}

fn progress(questionnaire: &Questionnaire, path: &SurveyPath) -> Value {
    let (done, left) = (path.pages.len(), questionnaire.pages_left(path));
    let percent = (done * 100).checked_div(done + left).unwrap_or(0);
    json!({"pages_done": done, "pages_left_at_most": left, "percent": percent})
}

/// Returns a page without its routes, so that respondents do not learn in advance where an answer leads.
fn page_content(questionnaire: &Questionnaire, page: usize) -> Value {
    let page = questionnaire.page(page);
    json!({"id": page.id, "title": page.title, "questions": page.questions})
}

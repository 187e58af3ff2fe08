//! A session as its respondent sees it.

use super::store::{Session, Status};
use crate::{
    definition::{Form, Stop, Way},
    events::TerminationReason,
};
use serde_json::{Map, Value, json};

/// What becomes of who finds a bucket full.
pub(super) const FULL: Status = Status::Terminated(TerminationReason::QuotaFull);

/// What a page's submit came to; small, because it is kept to be told again.
pub(super) fn outcome(form: &Form, status: Status, way: &Way) -> Value {
    match (status, way.stop) {
        (Status::Active, Stop::At(page)) => {
            json!({"status": "active", "next": "page", "page_id": form.page(page).id, "progress": progress(form, way)})
        }
        (Status::Active, _) => json!({"status": "active", "next": "complete", "progress": progress(form, way)}),
        (ended, _) => ending(ended),
    }
}

/// How a session has ended.
pub(super) fn ending(status: Status) -> Value {
    match status.reason() {
        Some(reason) => json!({"status": status.as_str(), "reason": reason}),
        None => json!({"status": status.as_str()}),
    }
}

/// An outcome with the page that it names, as it is shown.
pub(super) fn with_page(form: &Form, mut outcome: Value) -> Value {
    let page = outcome.get("page_id").and_then(Value::as_str).and_then(|id| form.page_index(id));
    if let (Some(page), Some(fields)) = (page, outcome.as_object_mut()) {
        fields.remove("page_id");
        fields.insert("page".to_owned(), shown(form, page));
    }
    outcome
}

/// The whole session: where it stands, and the answers that count.
pub(super) fn whole(form: &Form, session: &Session) -> Value {
    let way = form.way(&session.answers);
    let mut view = with_page(form, outcome(form, session.status, &way));
    let counting = way.pages.iter().filter_map(|page| {
        let id = &form.page(*page).id;
        Some((id.clone(), Value::Object(session.answers.get(id)?.clone())))
    });
    view["session_id"] = json!(session.session_id);
    view["answers"] = Value::Object(counting.collect::<Map<_, _>>());
    view
}

fn progress(form: &Form, way: &Way) -> Value {
    let (done, left) = (way.pages.len(), form.pages_left(way));
    let percent = (done * 100).checked_div(done + left).unwrap_or(0);
    json!({"pages_done": done, "pages_left_at_most": left, "percent": percent})
}

/// A page without its routes: where an answer leads is not the respondent's to know beforehand.
fn shown(form: &Form, page: usize) -> Value {
    let page = form.page(page);
    json!({"id": page.id, "title": page.title, "questions": page.questions})
}

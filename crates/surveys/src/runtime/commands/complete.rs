//! Completes a session: every place that it is to fill is filled, or it ends with a full quota.

use super::tell_terminated;
use crate::{
    SurveyError,
    definition::Stop,
    events::{SessionCompleted, TerminationReason, publish},
    quota::{self, Moves},
    runtime::{
        Desk,
        store::{self, Session, Status},
        view,
    },
};
use onceward::Tx;
use serde_json::Value;
use uuid::Uuid;

pub(in crate::runtime) async fn complete(tx: &mut Tx, desk: &Desk, session_id: Uuid) -> Result<Value, SurveyError> {
    let session = store::open_session(tx, session_id, "").await?;
    match session.status {
        Status::Active => {}
        // Asked again; and who finds the quota full is told so again.
        Status::Completed | Status::Terminated(TerminationReason::QuotaFull) => {
            return Ok(view::ending(session.status));
        }
        ended => return Err(SurveyError::Ended(view::ending(ended).to_string())),
    }
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    let way = form.way(&session.answers);
    if let Stop::At(page) = way.stop {
        return Err(SurveyError::Unanswered(form.page(page).id.clone()));
    }
    let buckets = desk.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
    let moves = Moves::completing(&buckets, &session.held, &form, &way, &session.answers);
    let places = store::step(tx, session_id, Status::Completed, &moves, &desk.settings).await?;
    let &Session { survey_id, collector_id, version, duration_ms, .. } = &session;
    quota::tell(tx, survey_id, session_id, &places.moved).await?;
    if places.full {
        let last = way.pages.last().map(|page| form.page(*page).id.clone());
        tell_terminated(tx, &session, TerminationReason::QuotaFull, last).await?;
        return Ok(view::ending(Status::Terminated(TerminationReason::QuotaFull)));
    }
    let pages = u32::try_from(way.pages.len()).unwrap_or(u32::MAX);
    let duration_ms = duration_ms.max(0);
    publish(tx, &SessionCompleted { session_id, survey_id, collector_id, version, pages, duration_ms }).await?;
    Ok(view::ending(Status::Completed))
}

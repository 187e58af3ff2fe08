//! Completes a session: every place that it is to fill is filled, or it ends with a full quota.

use super::{Decision, Verdict};
use crate::{
    SurveyError,
    definition::Stop,
    quota::Moves,
    runtime::{
        Desk,
        store::{Session, Status},
        view,
    },
};
use onceward::Tx;

pub(super) async fn complete(tx: &Tx, desk: &Desk, session: Session) -> Result<Verdict, SurveyError> {
    match session.status {
        Status::Active => {}
        // Asked again; and who finds the quota full is told so again.
        Status::Completed | view::FULL => return Ok(Verdict::Known(view::ending(session.status))),
        ended => return Err(SurveyError::Ended(view::ending(ended).to_string())),
    }
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    let way = form.way(&session.answers);
    if let Stop::At(page) = way.stop {
        return Err(SurveyError::Unanswered(form.page(page).id.clone()));
    }
    let buckets = desk.cache.buckets(tx, session.survey_id, session.quota_revision).await?;
    let moves = Moves::completing(&buckets, &session.held, &form, &way, &session.answers);
    Ok(Verdict::Decided(Box::new(Decision {
        session,
        status: Status::Completed,
        moves,
        submit: None,
        page_id: way.pages.last().map(|page| form.page(*page).id.clone()),
        pages: way.pages.len(),
        answer: view::ending(Status::Completed),
    })))
}

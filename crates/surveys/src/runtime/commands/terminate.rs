//! Ends a session because its respondent leaves.

use super::{Decision, Verdict};
use crate::{
    SurveyError,
    definition::Stop,
    events::TerminationReason,
    quota::Moves,
    runtime::{
        Desk,
        store::{Session, Status},
        view,
    },
};
use onceward::Tx;

pub(super) async fn terminate(
    tx: &Tx,
    desk: &Desk,
    session: Session,
    reason: TerminationReason,
) -> Result<Verdict, SurveyError> {
    match session.status {
        Status::Active => {}
        Status::Terminated(_) => return Ok(Verdict::Known(view::ending(session.status))),
        Status::Completed => return Err(SurveyError::Ended(view::ending(session.status).to_string())),
    }
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    let way = form.way(&session.answers);
    let page_id = match way.stop {
        Stop::At(page) => Some(form.page(page).id.clone()),
        Stop::End | Stop::ScreenedOut => None,
    };
    let status = Status::Terminated(reason);
    Ok(Verdict::Decided(Box::new(Decision {
        moves: Moves::ending(&session.held),
        session,
        status,
        submit: None,
        page_id,
        pages: way.pages.len(),
        answer: view::ending(status),
    })))
}

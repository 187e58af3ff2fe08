//! Ends a session because its respondent leaves.

use super::tell_terminated;
use crate::{
    SurveyError,
    definition::Stop,
    events::TerminationReason,
    quota::{self, Moves},
    runtime::{
        Desk,
        store::{self, Status},
        view,
    },
};
use onceward::Tx;
use serde_json::Value;
use uuid::Uuid;

pub(in crate::runtime) async fn terminate(
    tx: &mut Tx,
    desk: &Desk,
    session_id: Uuid,
    reason: TerminationReason,
) -> Result<Value, SurveyError> {
    let session = store::open_session(tx, session_id, "").await?;
    match session.status {
        Status::Active => {}
        Status::Terminated(_) => return Ok(view::ending(session.status)),
        Status::Completed => return Err(SurveyError::Ended(view::ending(session.status).to_string())),
    }
    let status = Status::Terminated(reason);
    let places = store::step(tx, session_id, status, &Moves::ending(&session.held), &desk.settings).await?;
    quota::tell(tx, session.survey_id, session_id, &places.moved).await?;
    let form = desk.cache.form(tx, session.survey_id, session.version).await?;
    let page = match form.way(&session.answers).stop {
        Stop::At(page) => Some(form.page(page).id.clone()),
        Stop::End | Stop::ScreenedOut => None,
    };
    tell_terminated(tx, &session, reason, page).await?;
    Ok(view::ending(status))
}

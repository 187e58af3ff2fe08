//! Removes answers permanently: those of one session, or of every session that was started with a person's invites.

use super::store;
use crate::{
    SurveyError,
    events::{SessionErased, publish},
    runtime::{EndedSession, SurveyContext, end_for_erasure},
};
use onceward::Tx;
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

/// The maximum number of sessions that one request erases.
pub(super) const SESSIONS_MAX: i64 = 100;

/// Erases the answers of `sessions`. Active sessions are ended first and release their places; counts are not changed.
pub(super) async fn erase_sessions(
    tx: &mut Tx,
    context: &SurveyContext,
    survey_id: Uuid,
    sessions: &[Uuid],
) -> Result<(), SurveyError> {
    for EndedSession { session_id, collector_id, was_active } in
        end_for_erasure(tx, context, survey_id, sessions).await?
    {
        let pages = store::erase(tx, session_id).await?;
        publish(tx, &SessionErased { session_id, survey_id, collector_id }).await?;
        let entry = Entry::new("answers_erased").object("session", session_id);
        audit::record(tx, entry.new_value(json!({"survey_id": survey_id, "pages": pages, "was_active": was_active})))?;
    }
    Ok(())
}

/// Erases up to [`SESSIONS_MAX`] sessions started by invites with this reference, and returns their ids.
pub(super) async fn erase_respondent(
    tx: &mut Tx,
    context: &SurveyContext,
    survey_id: Uuid,
    reference: &str,
) -> Result<Vec<Uuid>, SurveyError> {
    let sessions = store::find_sessions_of(tx, survey_id, reference, SESSIONS_MAX).await?;
    erase_sessions(tx, context, survey_id, &sessions).await?;
    Ok(sessions)
}

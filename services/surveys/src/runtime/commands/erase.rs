//! Ends sessions whose answers are to be erased: they release their places and accept no further steps.

use super::StepDecision;
use crate::{
    SurveyError,
    events::TerminationReason,
    quota::PlaceChanges,
    runtime::{
        SurveyContext,
        store::{self, SessionLookup, SessionStatus, StepWrite, SurveySession},
        view,
    },
};
use onceward::Tx;
use uuid::Uuid;

/// A session that has ended.
pub(crate) struct EndedSession {
    pub session_id: Uuid,
    pub collector_id: Uuid,
    /// Whether the session was active until now.
    pub was_active: bool,
}

/// Ends the sessions that are still active. Locks the sessions until `tx` ends, and then the buckets in which they hold
/// places. Fails without ending any if one of them is not a session of the survey.
pub(crate) async fn end_for_erasure(
    tx: &mut Tx,
    context: &SurveyContext,
    survey_id: Uuid,
    sessions: &[Uuid],
) -> Result<Vec<EndedSession>, SurveyError> {
    let lookups: Vec<SessionLookup<'_>> =
        sessions.iter().map(|id| SessionLookup { session_id: *id, page_id: "" }).collect();
    let (mut ended, mut decisions) = (Vec::new(), Vec::new());
    for session in store::lock_sessions(tx, &lookups).await? {
        let session = session?;
        if session.survey_id != survey_id {
            return Err(SurveyError::NotFound("session"));
        }
        let was_active = session.status == SessionStatus::Active;
        ended.push(EndedSession { session_id: session.session_id, collector_id: session.collector_id, was_active });
        decisions.extend(was_active.then(|| termination(session)));
    }
    if !decisions.is_empty() {
        let writes: Vec<StepWrite<'_>> = decisions.iter().map(StepDecision::to_write).collect();
        let places = store::write_steps(tx, &writes, &view::ending(view::QUOTA_FULL), &context.settings).await?;
        for (decision, places) in decisions.into_iter().zip(places) {
            decision.publish(tx, &places).await?;
        }
    }
    Ok(ended)
}

fn termination(session: SurveySession) -> StepDecision {
    let status = SessionStatus::Terminated(TerminationReason::ByRespondent);
    StepDecision {
        changes: PlaceChanges::on_end(&session.held),
        session,
        status,
        submitted: None,
        next: None,
        page_id: None,
        pages: 0,
        response: view::ending(status),
    }
}

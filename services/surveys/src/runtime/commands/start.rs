//! Starts a session: checks the collector's state, window and cap and the invite, and reserves places in buckets that
//! apply to everybody.

use crate::{
    SurveyError,
    definition::AnswersByPage,
    events::{InviteConsumed, SessionStarted, SessionTerminated, TerminationReason, publish},
    quota::{self, PlaceChanges},
    runtime::{
        SurveyContext,
        store::{self, Admission, AdmissionRefusal, SessionStatus, StepWrite},
        view,
    },
};
use onceward::Tx;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A session that was started now or earlier.
pub(in crate::runtime) struct StartedSession {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    /// Whether this request started it.
    pub is_new: bool,
    /// Whether it was started within the last minute.
    pub is_recent: bool,
}

/// Where a session is started. A key of one origin never leads to a session of the other.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum StartOrigin {
    Api,
    Page,
}

/// Starts a session, or returns the one that was started with the same digest or invite. Fails if the collector admits
/// nobody.
pub(in crate::runtime) async fn start(
    tx: &mut Tx,
    context: &SurveyContext,
    collector_id: Uuid,
    invite_id: Option<Uuid>,
    digest: &[u8],
) -> Result<StartedSession, SurveyError> {
    let (is_new, is_recent, session_id, survey_id, version, revision) =
        match store::admit(tx, collector_id, invite_id, digest, &context.settings).await? {
            Admission::Refused(refusal) => return Err(refusal_error(refusal)),
            Admission::Admitted { is_new, is_recent, session_id, survey_id, version, quota_revision } => {
                (is_new, is_recent, session_id, survey_id, version, quota_revision)
            }
        };
    let started = StartedSession { session_id, survey_id, is_new, is_recent };
    if !is_new {
        return Ok(started);
    }
    publish(tx, &SessionStarted { session_id, survey_id, collector_id, version }).await?;
    if let Some(invite_id) = invite_id {
        publish(tx, &InviteConsumed { collector_id, survey_id, invite_id, session_id }).await?;
    }
    let questionnaire = context.cache.questionnaire(tx, survey_id, version).await?;
    let buckets = context.cache.buckets(tx, survey_id, revision).await?;
    let no_answers = AnswersByPage::new();
    let path = questionnaire.path(&no_answers);
    let changes = PlaceChanges::on_continue(&buckets, &[], &questionnaire, &path, &no_answers);
    if !changes.reserve.is_empty() {
        let step = StepWrite { session_id, status: SessionStatus::Active, changes: &changes, submitted: None };
        for places in store::write_steps(tx, &[step], &view::ending(view::QUOTA_FULL), &context.settings).await? {
            quota::publish_changes(tx, survey_id, session_id, &places.changes).await?;
            if places.full {
                let reason = TerminationReason::QuotaFull;
                let event = SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id: None };
                publish(tx, &event).await?;
            }
        }
    }
    Ok(started)
}

/// Returns the digest that identifies a start: equal for the same origin, collector, invite and key.
pub(in crate::runtime) fn start_digest(
    origin: StartOrigin,
    collector_id: Uuid,
    invite_id: Option<Uuid>,
    key: &str,
) -> Vec<u8> {
    let digest = Sha256::new_with_prefix(match origin {
        StartOrigin::Api => "api:",
        StartOrigin::Page => "page:",
    });
    let digest = digest.chain_update(collector_id.as_bytes());
    digest.chain_update(invite_id.unwrap_or_default().as_bytes()).chain_update(key).finalize().to_vec()
}

fn refusal_error(refusal: AdmissionRefusal) -> SurveyError {
    match refusal {
        AdmissionRefusal::Unknown => SurveyError::NotFound("collector"),
        AdmissionRefusal::Closed => SurveyError::CollectorNotOpen("The collector is closed."),
        AdmissionRefusal::Paused => SurveyError::CollectorNotOpen("The survey or its collector is paused."),
        AdmissionRefusal::NotOpenYet => SurveyError::CollectorNotOpen("The collector is not open yet."),
        AdmissionRefusal::CapReached => {
            SurveyError::CollectorNotOpen("The collector has reached its maximum number of respondents.")
        }
        AdmissionRefusal::InviteUsed => SurveyError::InviteUsed,
    }
}

//! Begins a session: the collector's state, window and cap, the invite, and buckets that everybody belongs to.

use crate::{
    SurveyError,
    definition::Answers,
    events::{InviteConsumed, SessionStarted, SessionTerminated, TerminationReason, publish},
    quota::{self, Moves},
    runtime::{
        Desk,
        store::{self, Admission, Status, Written},
        view,
    },
};
use onceward::Tx;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A session that was begun, now or before.
pub(in crate::runtime) struct Begun {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub fresh: bool,
}

pub(in crate::runtime) async fn start(
    tx: &mut Tx,
    desk: &Desk,
    collector_id: Uuid,
    invite_id: Option<Uuid>,
    digest: &[u8],
) -> Result<Begun, SurveyError> {
    let (fresh, session_id, survey_id, version, revision) =
        match store::admit(tx, collector_id, invite_id, digest, &desk.settings).await? {
            Admission::Refused(refusal) => return Err(refused(&refusal)),
            Admission::In { fresh, session_id, survey_id, version, quota_revision } => {
                (fresh, session_id, survey_id, version, quota_revision)
            }
        };
    let begun = Begun { session_id, survey_id, fresh };
    if !fresh {
        return Ok(begun);
    }
    publish(tx, &SessionStarted { session_id, survey_id, collector_id, version }).await?;
    if let Some(invite_id) = invite_id {
        publish(tx, &InviteConsumed { collector_id, survey_id, invite_id, session_id }).await?;
    }
    let form = desk.cache.form(tx, survey_id, version).await?;
    let buckets = desk.cache.buckets(tx, survey_id, revision).await?;
    let nothing = Answers::new();
    let moves = Moves::going_on(&buckets, &[], &form, &form.way(&nothing), &nothing);
    if !moves.reserve.is_empty() {
        let step = Written { session_id, status: Status::Active, moves: &moves, submit: None };
        for places in store::steps(tx, &[step], &view::ending(view::FULL), &desk.settings).await? {
            quota::tell(tx, survey_id, session_id, &places.moved).await?;
            if places.full {
                let reason = TerminationReason::QuotaFull;
                let told = SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id: None };
                publish(tx, &told).await?;
            }
        }
    }
    Ok(begun)
}

/// The same link and the same key are the same start.
pub(in crate::runtime) fn start_digest(collector_id: Uuid, invite_id: Option<Uuid>, key: &str) -> Vec<u8> {
    let digest = Sha256::new_with_prefix(collector_id.as_bytes());
    digest.chain_update(invite_id.unwrap_or_default().as_bytes()).chain_update(key).finalize().to_vec()
}

fn refused(refusal: &str) -> SurveyError {
    match refusal {
        "closed" => SurveyError::NotOpen("the collector is closed"),
        "paused" => SurveyError::NotOpen("the survey or its collector is paused"),
        "not_open_yet" => SurveyError::NotOpen("the collector is not open yet"),
        "cap_reached" => SurveyError::NotOpen("the collector has let in as many respondents as it may"),
        "invite_used" => SurveyError::InviteUsed,
        _ => SurveyError::Missing("collector"),
    }
}

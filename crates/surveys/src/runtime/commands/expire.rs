//! Takes care of sessions that were silent for too long, some at a time.

use crate::{
    Settings, SurveyError,
    events::{QuotaReleased, SessionTerminated, TerminationReason, publish},
    runtime::store::{self, Silent},
};
use onceward::Tx;

/// Gives whether there may be more. Buckets are locked once in a transaction, so more is another transaction's.
pub(in crate::runtime) async fn expire(tx: &mut Tx, settings: &Settings) -> Result<bool, SurveyError> {
    let silent = store::expire(tx, settings).await?;
    let sessions = silent.iter().filter(|silent| silent.place.is_none()).count();
    for Silent { session_id, survey_id, collector_id, version, place } in silent {
        let Some(session_id) = session_id else {
            continue;
        };
        match place {
            Some((bucket_id, reserved, filled, target)) => {
                publish(tx, &QuotaReleased { bucket_id, survey_id, session_id, reserved, filled, target }).await?;
            }
            None => {
                let reason = TerminationReason::Expired;
                let page_id = None;
                publish(tx, &SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id })
                    .await?;
            }
        }
    }
    Ok(sessions >= settings.expire_batch as usize)
}

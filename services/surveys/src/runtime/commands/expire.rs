//! Handles sessions that were inactive for too long, in batches.

use crate::{
    Settings, SurveyError,
    events::{QuotaReleased, SessionTerminated, TerminationReason, publish},
    runtime::store::{self, ExpiredPlace, ExpiryChange},
};
use onceward::Tx;

/// Handles one batch and returns whether more may follow. The next batch needs its own transaction, because buckets are
/// locked once per transaction.
pub(in crate::runtime) async fn expire(tx: &mut Tx, settings: &Settings) -> Result<bool, SurveyError> {
    let changes = store::expire(tx, settings).await?;
    let sessions = changes.iter().filter(|change| !matches!(change, ExpiryChange::PlaceReleased(_))).count();
    for change in changes {
        match change {
            ExpiryChange::PlaceReleased(place) => {
                let ExpiredPlace { session_id, survey_id, bucket_id, reserved, filled, target } = place;
                publish(tx, &QuotaReleased { bucket_id, survey_id, session_id, reserved, filled, target }).await?;
            }
            ExpiryChange::SessionEnded { session_id, survey_id, collector_id, version } => {
                let (reason, page_id) = (TerminationReason::Expired, None);
                let event = SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id };
                publish(tx, &event).await?;
            }
            ExpiryChange::SessionContinues => {}
        }
    }
    Ok(sessions >= settings.expire_batch as usize)
}

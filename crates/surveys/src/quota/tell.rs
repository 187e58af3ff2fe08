//! Tells what was moved.

use super::{Moved, store::Kind};
use crate::events::{BucketClosed, QuotaFinalized, QuotaReleased, QuotaReserved, publish};
use onceward::{PublishError, Tx};
use uuid::Uuid;

/// Publishes the moves of a session's places with the commit of `tx`.
pub(crate) async fn tell(tx: &mut Tx, survey_id: Uuid, session_id: Uuid, moved: &[Moved]) -> Result<(), PublishError> {
    for &Moved { bucket_id, kind, reserved, filled, target, closed } in moved {
        match kind {
            Kind::Released => {
                publish(tx, &QuotaReleased { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
            Kind::Reserved => {
                publish(tx, &QuotaReserved { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
            Kind::Finalized => {
                publish(tx, &QuotaFinalized { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
        }
        if closed {
            publish(tx, &BucketClosed { bucket_id, survey_id, filled, target }).await?;
        }
    }
    Ok(())
}

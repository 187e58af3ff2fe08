//! Taking an event back, by its mirror image.

use crate::{LedgerError, Posted, store};
use jiff::civil::Date;
use onceward_db::{DbError, Tx};
use uuid::Uuid;

/// The kind of posting that a reversal is.
pub const REVERSAL_SCHEMA: &str = "posting.reversal.v1";

/// Posts and finalises the mirror image of `event_id` under the id `reversal_id`. At most once: the second to try is told
/// who was first. Nothing is written then, and the transaction goes on. A reversal is an event and can be reversed.
pub async fn reverse(
    tx: &Tx,
    event_id: Uuid,
    reversal_id: Uuid,
    effective_date: Date,
    correlation_id: &str,
    note: Option<&str>,
) -> Result<Posted, LedgerError> {
    tx.tenant()?;
    let row = tx
        .query_one(
            store::REVERSE,
            &[&event_id, &reversal_id, &REVERSAL_SCHEMA, &effective_date, &correlation_id, &note],
        )
        .await?;
    let known: Uuid = row.try_get("known_id").map_err(DbError::from)?;
    match row.try_get("outcome").map_err(DbError::from)? {
        "reversed" => Err(LedgerError::AlreadyReversed { by: known }),
        "missing" => Err(LedgerError::NotFound { event_id: known }),
        "posted" => Err(LedgerError::AlreadyPosted { event_id: known }),
        _ => Ok(Posted { event_id: known }),
    }
}

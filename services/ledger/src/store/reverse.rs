//! Reverses an event by posting its mirror image.

use crate::{LedgerError, PostedEvent};
use jiff::civil::Date;
use onceward_db::{DbError, Tx};
use uuid::Uuid;

const REVERSE: &str = "SELECT outcome, known_id FROM ledger.reverse_event($1, $2, $3, $4, $5, $6)";

/// The kind of posting of a reversal.
pub const REVERSAL_SCHEMA: &str = "posting.reversal.v1";

/// Posts and finalises the mirror image of `event_id` under the id `reversal_id`. An event is reversed at most once: a
/// second attempt fails with the id of the first reversal, writes nothing, and leaves the transaction usable. A
/// reversal is an event and can be reversed.
pub async fn reverse(
    tx: &Tx,
    event_id: Uuid,
    reversal_id: Uuid,
    effective_date: Date,
    correlation_id: &str,
    note: Option<&str>,
) -> Result<PostedEvent, LedgerError> {
    tx.tenant()?;
    let row = tx
        .query_one(REVERSE, &[&event_id, &reversal_id, &REVERSAL_SCHEMA, &effective_date, &correlation_id, &note])
        .await?;
    let known: Uuid = row.try_get("known_id").map_err(DbError::from)?;
    match row.try_get("outcome").map_err(DbError::from)? {
        "reversed" => Err(LedgerError::AlreadyReversed { by: known }),
        "missing" => Err(LedgerError::NotFound { event_id: known }),
        "posted" => Err(LedgerError::AlreadyPosted { event_id: known }),
        _ => Ok(PostedEvent { event_id: known }),
    }
}

//! How a command that came as a message ends: done, refused with a reason, or tried again.

use crate::{
    LendingError,
    loans::store::{self, State},
};
use onceward::{Failure, Tx, db::Savepoint};
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

/// Notes how a command about a loan went. A refusal undoes what it did since `before` and is an end, not a failure:
/// whoever asks for the status reads the reason.
pub(crate) async fn note_outcome<T>(
    tx: &mut Tx,
    before: Savepoint,
    kind: &str,
    loan_id: Uuid,
    result: Result<T, LendingError>,
) -> Result<(), Failure> {
    match result {
        Ok(_) => {
            tx.release(before);
            store::settle(tx, kind, loan_id, State::Done, None).await?;
        }
        Err(refusal) if refusal.is_refusal() => {
            tx.rollback_to(before).await?;
            tx.release(before);
            let reason = refusal.to_string();
            store::settle(tx, kind, loan_id, State::Refused, Some(&reason)).await?;
            let payload = json!({"command": kind, "reason": reason});
            let entry = Entry::new("loan_command_refused").object("loan", loan_id).loan(loan_id).payload(payload);
            audit::record(tx, entry).map_err(LendingError::from)?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

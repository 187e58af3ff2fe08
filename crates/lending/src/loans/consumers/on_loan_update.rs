//! `loan.update.v1`: changes a loan.

use crate::{
    LendingError,
    loans::{
        commands::{note_outcome, update_loan},
        events::{LoanCreate, LoanUpdate},
        store::{self, State},
    },
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use onceward::{DbError, Event, Failure, Handler, Received, Tx};
use std::time::Duration;

/// How long a change waits for its loan to be made: both were asked for at the same time, by different queues.
const LOAN_IS_COMING: SignedDuration = SignedDuration::from_mins(10);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(crate) struct OnLoanUpdate;

impl Handler for OnLoanUpdate {
    type Event = LoanUpdate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanUpdate>) -> Result<(), Failure> {
        let update = &received.event;
        let today = received.envelope.occurred_at.to_zoned(TimeZone::UTC).date();
        let before = tx.savepoint();
        let result = update_loan(tx, update, today).await;
        let waited = Timestamp::now().duration_since(received.envelope.occurred_at);
        if matches!(result, Err(LendingError::LoanMissing(_)))
            && waited < LOAN_IS_COMING
            && is_coming(tx, update).await?
        {
            return Err(Failure::snooze(LOOK_AGAIN, "the loan is being made"));
        }
        note_outcome(tx, before, LoanUpdate::TYPE, update.loan_id, result).await
    }
}

async fn is_coming(tx: &Tx, update: &LoanUpdate) -> Result<bool, DbError> {
    let creation = store::latest(tx, update.loan_id, &[LoanCreate::TYPE]).await?;
    Ok(creation.is_some_and(|creation| creation.state == State::Processing))
}

//! `q.payments.post`: what an operator asks for: posting a payment again, or taking it back.

use crate::LendingError;
use crate::loans::store::{State, settle};
use crate::payments::{
    commands::{
        place::Schedules,
        post::{self, Which, post},
        replay::repost,
        return_payment::{self, ReturnFacts, return_payment},
    },
    events::{Action, PostPayment},
    store,
};
use jiff::{SignedDuration, Timestamp};
use onceward::{Event, Failure, Handler, Received, Tx};
use std::{sync::Arc, time::Duration};

/// How long a return waits for its payment to be posted: both may be on their way.
const POSTING_IS_COMING: SignedDuration = SignedDuration::from_mins(10);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct OnPost {
    pub schedules: Arc<Schedules>,
}

impl Handler for OnPost {
    type Event = PostPayment;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PostPayment>) -> Result<(), Failure> {
        let asked = &received.event;
        let before = tx.savepoint();
        let refused = match self.act(tx, asked).await {
            Ok(None) => {
                tx.release(before);
                None
            }
            Ok(Some(reason)) if reason == NOT_POSTED && is_young(received) => {
                return Err(Failure::snooze(LOOK_AGAIN, reason));
            }
            Ok(Some(reason)) => {
                tx.release(before);
                Some(reason.to_owned())
            }
            Err(refusal) if refusal.is_refusal() => {
                tx.rollback_to(before).await?;
                tx.release(before);
                Some(refusal.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        let state = if refused.is_some() { State::Refused } else { State::Done };
        settle(tx, PostPayment::TYPE, asked.payment_id, state, refused.as_deref()).await?;
        Ok(())
    }
}

const NOT_POSTED: &str = "the payment is not posted";

impl OnPost {
    /// Why it was not done, if it was not.
    async fn act(&self, tx: &mut Tx, asked: &PostPayment) -> Result<Option<&'static str>, LendingError> {
        let PostPayment { payment_id, loan_id, action } = asked;
        match action {
            Action::Return { reason, returned_on, fee_minor } => {
                let facts = ReturnFacts { reason, returned_on: *returned_on, fee: *fee_minor };
                let outcome = return_payment(tx, &self.schedules, *payment_id, *loan_id, facts).await?;
                Ok((outcome == return_payment::Outcome::NotPosted).then_some(NOT_POSTED))
            }
            Action::Post => {
                let Some(state) = store::posting_state(tx, *payment_id).await? else {
                    return Ok(Some("there is no such payment"));
                };
                let effective_date = state.effective_date;
                let which = Which { payment_id: *payment_id, loan_id: *loan_id, amount: None, effective_date };
                match post(tx, &self.schedules, which, Timestamp::now()).await? {
                    post::Outcome::Posted => Ok(None),
                    post::Outcome::Before => repost(tx, &self.schedules, *payment_id, *loan_id).await,
                    post::Outcome::Refused(reason) => Ok(Some(reason)),
                }
            }
        }
    }
}

fn is_young(received: &Received<'_, PostPayment>) -> bool {
    Timestamp::now().duration_since(received.envelope.occurred_at) < POSTING_IS_COMING
}

//! `payment.post.v1`: operators' requests: post a payment again, return it, or settle one that failed.

use crate::loans::store::ScheduleCache;
use crate::loans::store::set_command_state;
use crate::payments::{
    commands::{
        post_payment::{PaymentRef, PostPaymentOutcome, post_payment},
        replay::{RepostOutcome, repost_payment},
        return_payment::{ReturnDetails, ReturnOutcome, return_payment},
        unapplied::{self, MoveTarget},
    },
    events::loan_event,
    store,
};
use crate::progress::CommandState;
use crate::topology::{WorkQueue, exchanges};
use crate::{LendingError, Settings};
use jiff::{SignedDuration, Timestamp, civil::Date};
use onceward::{Consumer, Event, Failure, Handler, Received, Tx};
use onceward_money::Minor;
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "q.payments.post", exchange: exchanges::PAYMENT_SAGA, key: "post.v1" };

/// The command to execute an operator's request for a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PostPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    #[serde(flatten)]
    pub action: PaymentAction,
}

/// The action to take on a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum PaymentAction {
    /// Post it if it is not posted; otherwise post it and what came after it again, by the current rules.
    Post,
    /// Reverse it, because the bank took the money back.
    Return {
        /// The bank's reason.
        reason: String,
        /// The day of the return.
        returned_on: Date,
        /// The fee charged to the borrower.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fee_minor: Option<Minor>,
    },
    /// Check a failed payment again, after its cause was resolved, and post it.
    Revalidate {
        /// The new effective day, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
    },
    /// Move a failed payment to another loan.
    Move {
        /// The other loan.
        to_loan_id: Uuid,
        /// The id of the new payment on that loan.
        to_payment_id: Uuid,
        /// The new effective day, if it changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effective_date: Option<Date>,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Refund a failed payment to its payer.
    Refund {
        /// The reason.
        reason: String,
        /// The day of the refund.
        refunded_on: Date,
    },
}

loan_event!(PostPayment, "payment.post.v1", QUEUE.exchange, QUEUE.key, |_| None, |event| ("payment", event.payment_id));

pub(super) fn consumer(settings: &Arc<Settings>, schedules: &Arc<ScheduleCache>) -> Consumer {
    Consumer::transactional("repost-payments", QUEUE.name)
        .prefetch(settings.poster_batch)
        .on(OnPostPayment { schedules: schedules.clone(), settings: settings.clone() })
        .into()
}

/// How long a request waits for its payment to be posted: both may be in flight.
const POSTING_WAIT_MAX: SignedDuration = SignedDuration::from_mins(10);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const NOT_POSTED: &str = "the payment is not posted";

struct OnPostPayment {
    schedules: Arc<ScheduleCache>,
    settings: Arc<Settings>,
}

/// The outcome of an operator's request.
enum RequestOutcome {
    Done,
    /// The payment is not posted. Its posting may still be in flight.
    NotPosted,
    /// The request was refused, with the reason.
    Refused(&'static str),
}

impl Handler for OnPostPayment {
    type Event = PostPayment;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PostPayment>) -> Result<(), Failure> {
        let request = &received.event;
        let savepoint = tx.savepoint();
        let refusal = match Box::pin(self.execute(tx, request)).await {
            Ok(RequestOutcome::Done) => None,
            Ok(RequestOutcome::NotPosted) if may_be_posted_soon(received) => {
                return Err(Failure::snooze(POLL_INTERVAL, NOT_POSTED));
            }
            Ok(RequestOutcome::NotPosted) => Some(NOT_POSTED.to_owned()),
            Ok(RequestOutcome::Refused(reason)) => Some(reason.to_owned()),
            Err(refusal) if refusal.is_refusal() => {
                tx.rollback_to(savepoint).await?;
                Some(refusal.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        tx.release(savepoint);
        let state = if refusal.is_some() { CommandState::Refused } else { CommandState::Done };
        set_command_state(tx, PostPayment::TYPE, request.payment_id, state, refusal.as_deref()).await?;
        Ok(())
    }
}

impl OnPostPayment {
    /// Executes the request. Each action is a large future; boxed, they do not add up on the stack.
    async fn execute(&self, tx: &mut Tx, request: &PostPayment) -> Result<RequestOutcome, LendingError> {
        let PostPayment { payment_id, loan_id, action } = request;
        match action {
            PaymentAction::Return { reason, returned_on, fee_minor } => {
                let details = ReturnDetails { reason, returned_on: *returned_on, fee: *fee_minor };
                let returned = Box::pin(return_payment(tx, &self.schedules, *payment_id, *loan_id, details)).await?;
                Ok(match returned {
                    ReturnOutcome::Returned | ReturnOutcome::AlreadyReturned => RequestOutcome::Done,
                    ReturnOutcome::NotPosted => RequestOutcome::NotPosted,
                })
            }
            PaymentAction::Revalidate { effective_date } => {
                let revalidated =
                    unapplied::revalidate(tx, &self.schedules, &self.settings, *payment_id, *effective_date);
                Box::pin(revalidated).await?;
                Ok(RequestOutcome::Done)
            }
            PaymentAction::Move { to_loan_id, to_payment_id, effective_date, reason } => {
                let target = MoveTarget {
                    loan_id: *to_loan_id,
                    payment_id: *to_payment_id,
                    effective_date: *effective_date,
                    reason: reason.as_deref(),
                };
                Box::pin(unapplied::move_payment(tx, &self.schedules, &self.settings, *payment_id, target)).await?;
                Ok(RequestOutcome::Done)
            }
            PaymentAction::Refund { reason, refunded_on } => {
                unapplied::refund(tx, *payment_id, *refunded_on, reason).await?;
                Ok(RequestOutcome::Done)
            }
            PaymentAction::Post => self.post(tx, request).await,
        }
    }

    /// Posts the payment if it is not posted; otherwise posts it, and what came after it, again.
    async fn post(&self, tx: &mut Tx, request: &PostPayment) -> Result<RequestOutcome, LendingError> {
        let PostPayment { payment_id, loan_id, .. } = *request;
        let Some(state) = store::posting_state(tx, payment_id).await? else {
            return Ok(RequestOutcome::Refused("there is no such payment"));
        };
        let (effective_date, scope) = (state.effective_date, &tx.scope().clone());
        let payment = PaymentRef { payment_id, loan_id, amount: None, effective_date, scope };
        match Box::pin(post_payment(tx, &self.schedules, payment)).await? {
            PostPaymentOutcome::Posted => Ok(RequestOutcome::Done),
            PostPaymentOutcome::Refused(reason) => Ok(RequestOutcome::Refused(reason)),
            PostPaymentOutcome::AlreadyPosted => {
                Ok(match Box::pin(repost_payment(tx, &self.schedules, payment_id, loan_id)).await? {
                    RepostOutcome::Reposted => RequestOutcome::Done,
                    RepostOutcome::NotPosted => RequestOutcome::NotPosted,
                    RepostOutcome::Refused(reason) => RequestOutcome::Refused(reason),
                })
            }
        }
    }
}

fn may_be_posted_soon(received: &Received<'_, PostPayment>) -> bool {
    Timestamp::now().duration_since(received.envelope.occurred_at) < POSTING_WAIT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_names_its_action() {
        let nil = Uuid::nil();
        let given = json!({
            "payment_id": nil, "loan_id": nil, "action": "return", "reason": "R01", "returned_on": "2026-02-03",
            "fee_minor": "2500"
        });
        let read: PostPayment = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), given);
        let post: PostPayment =
            serde_json::from_value(json!({"payment_id": nil, "loan_id": nil, "action": "post"})).unwrap();
        assert_eq!(post.action, PaymentAction::Post);
    }
}

//! `payment.validated.v1`: the poster. It handles many payments per statement and per commit.

use crate::loans::store::ScheduleCache;
use crate::payments::{
    commands::{
        fail_payment::fail_payment,
        post_payment::{PaymentRef, PostPaymentOutcome, post_payments},
    },
    events::loan_event,
};
use crate::topology::{WorkQueue, exchanges};
use crate::{LendingError, Settings};
use jiff::civil::Date;
use onceward::{BatchHandler, Consumer, Failure, InBatch, Tx};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "q.payments.validated", exchange: exchanges::PAYMENT_SAGA, key: "validated.v1" };

/// A payment passed validation and may be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentValidated {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub allocation_hints: Map<String, Value>,
}

loan_event!(
    PaymentValidated,
    "payment.validated.v1",
    QUEUE.exchange,
    QUEUE.key,
    |event| Some(format!("payment.validated:{}:{}", event.payment_id, event.effective_date)),
    |event| ("payment", event.payment_id)
);

pub(super) fn consumer(settings: &Settings, schedules: &Arc<ScheduleCache>) -> Consumer {
    Consumer::transactional("post-payments", QUEUE.name)
        .prefetch(settings.poster_batch)
        .concurrency(settings.posters())
        .on_batch(OnPaymentValidated { schedules: schedules.clone() })
        .into()
}

struct OnPaymentValidated {
    schedules: Arc<ScheduleCache>,
}

impl BatchHandler for OnPaymentValidated {
    type Event = PaymentValidated;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentValidated>]) -> Result<(), Failure> {
        let payments = batch.iter().map(|message| {
            let PaymentValidated { payment_id, loan_id, amount_minor, effective_date, .. } = message.received.event;
            let (amount, scope) = (Some(amount_minor), message.scope());
            PaymentRef { payment_id, loan_id, amount, effective_date, scope }
        });
        let payments: Vec<PaymentRef<'_>> = payments.collect();
        let outcomes = match payments.as_slice() {
            [payment] => self.post_alone(tx, payment).await?,
            _ => post_payments(tx, &self.schedules, &payments).await?,
        };
        for outcome in outcomes {
            match outcome {
                PostPaymentOutcome::Posted | PostPaymentOutcome::AlreadyPosted => {}
                PostPaymentOutcome::Refused(reason) => return Err(Failure::permanent(reason)),
            }
        }
        Ok(())
    }
}

impl OnPaymentValidated {
    /// A message is handled alone when its batch failed, or when it is the only one. If the books refuse its payment,
    /// a retry does not help: the payment fails, and its money is not left in a dead letter.
    async fn post_alone(&self, tx: &mut Tx, payment: &PaymentRef<'_>) -> Result<Vec<PostPaymentOutcome>, LendingError> {
        let savepoint = tx.savepoint();
        match post_payments(tx, &self.schedules, std::slice::from_ref(payment)).await {
            Err(refusal) if refusal.is_refusal() => {
                tx.rollback_to(savepoint).await?;
                tx.release(savepoint);
                let exists = fail_payment(tx, payment.scope, payment.payment_id, &refusal).await?;
                if exists { Ok(Vec::new()) } else { Err(refusal) }
            }
            result => {
                tx.release(savepoint);
                result
            }
        }
    }
}

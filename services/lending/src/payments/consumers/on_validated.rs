//! `q.payments.validated`: the poster. It handles many payments per statement and per commit.

use crate::LendingError;
use crate::loans::store::ScheduleCache;
use crate::payments::{
    commands::{
        fail_payment::fail_payment,
        post_payment::{PaymentRef, PostPaymentOutcome, post_payments},
    },
    events::PaymentValidated,
};
use onceward::{BatchHandler, Failure, InBatch, Tx};
use std::sync::Arc;

pub(crate) struct OnPaymentValidated {
    pub schedules: Arc<ScheduleCache>,
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

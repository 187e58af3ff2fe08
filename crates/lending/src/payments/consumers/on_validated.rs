//! `q.payments.validated`: the poster. Many payments to a statement, and to a commit.

use crate::payments::{
    commands::{
        place::Schedules,
        post::{Outcome, Which, post_all},
    },
    events::PaymentValidated,
};
use jiff::Timestamp;
use onceward::{BatchHandler, Failure, InBatch, Tx};
use std::sync::Arc;

pub(crate) struct OnValidated {
    pub schedules: Arc<Schedules>,
}

impl BatchHandler for OnValidated {
    type Event = PaymentValidated;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentValidated>]) -> Result<(), Failure> {
        let payments = batch.iter().map(|message| {
            let PaymentValidated { payment_id, loan_id, amount_minor, effective_date, .. } = message.received.event;
            Which { payment_id, loan_id, amount: Some(amount_minor), effective_date }
        });
        let payments: Vec<Which> = payments.collect();
        let enter = |tx: &mut Tx, nth: usize| batch[nth].enter(tx);
        for outcome in post_all(tx, &self.schedules, &payments, Timestamp::now(), &enter).await? {
            match outcome {
                Outcome::Posted | Outcome::Before => {}
                Outcome::Refused(reason) => return Err(Failure::permanent(reason)),
            }
        }
        Ok(())
    }
}

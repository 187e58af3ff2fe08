//! `q.payments.validated`: the poster. Many payments to a commit.

use crate::payments::{
    commands::{
        place::Schedules,
        post::{Outcome, Which, post},
    },
    events::PaymentValidated,
};
use jiff::Timestamp;
use onceward::{Failure, Handler, Received, Tx};
use std::sync::Arc;

pub(crate) struct OnValidated {
    pub schedules: Arc<Schedules>,
}

impl Handler for OnValidated {
    type Event = PaymentValidated;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PaymentValidated>) -> Result<(), Failure> {
        let PaymentValidated { payment_id, loan_id, amount_minor, effective_date, .. } = received.event;
        let which = Which { payment_id, loan_id, amount: Some(amount_minor), effective_date };
        match post(tx, &self.schedules, which, Timestamp::now()).await? {
            Outcome::Posted | Outcome::Before => Ok(()),
            Outcome::Refused(reason) => Err(Failure::permanent(reason)),
        }
    }
}

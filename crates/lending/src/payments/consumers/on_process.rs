//! `payment.process.v1`: takes in a payment that we were asked for ourselves.

use crate::LendingError;
use crate::loans::store::{State, settle};
use crate::payments::{
    commands::take_in::{Taken, take_all_in},
    events::ProcessPayment,
    provider::{Claim, DIRECT},
};
use onceward::{Event, Failure, Handler, Received, Tx};
use serde_json::json;

pub(crate) struct OnProcess;

impl Handler for OnProcess {
    type Event = ProcessPayment;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, ProcessPayment>) -> Result<(), Failure> {
        let asked = &received.event;
        let claim = Claim {
            provider: DIRECT,
            loan_id: asked.loan_id,
            method: asked.method,
            amount: asked.amount_minor,
            currency: asked.currency,
            // We are the gateway, so the transaction's id is ours.
            gateway_txn_id: asked.payment_id.to_string(),
            effective_date: Some(asked.effective_date),
            hints: asked.allocation_hints.clone(),
            raw: json!(asked),
        };
        // It was received when it was asked for, however long the message took.
        let received_at = received.envelope.occurred_at;
        let taken = take_all_in(tx, vec![(asked.payment_id, claim)], received_at, &|_, _| {}).await?.pop();
        let (state, detail) = match taken {
            Some(Taken::NoLoan { loan_id }) => (State::Refused, Some(LendingError::LoanMissing(loan_id).to_string())),
            Some(Taken::NoProvider { .. }) => (State::Refused, Some("payments are not taken directly here".to_owned())),
            Some(Taken::Conflict { .. }) => (State::Refused, Some("the payment is known and was another".to_owned())),
            _ => (State::Done, None),
        };
        settle(tx, ProcessPayment::TYPE, asked.payment_id, state, detail.as_deref()).await?;
        Ok(())
    }
}

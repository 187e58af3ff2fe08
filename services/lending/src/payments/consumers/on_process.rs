//! `payment.process.v1`: receives a payment that was requested from us directly.

use crate::LendingError;
use crate::loans::store::set_command_state;
use crate::payments::{
    commands::receive_payment::{ReceiveOutcome, receive_payment_with_id},
    events::ProcessPayment,
    provider::{DIRECT, ReportedPayment},
};
use crate::progress::CommandState;
use onceward::{Event, Failure, Handler, Received, Tx};
use serde_json::json;

pub(crate) struct OnProcessPayment;

impl Handler for OnProcessPayment {
    type Event = ProcessPayment;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, ProcessPayment>) -> Result<(), Failure> {
        let command = &received.event;
        let reported = ReportedPayment {
            provider: DIRECT,
            loan_id: command.loan_id,
            method: command.method,
            amount: command.amount_minor,
            currency: command.currency,
            // We are the gateway, so the transaction's id is ours.
            gateway_txn_id: command.payment_id.to_string(),
            effective_date: Some(command.effective_date),
            hints: command.allocation_hints.clone(),
            raw: json!(command),
        };
        // It was received when it was requested, however long the message took.
        let received_at = received.envelope.occurred_at;
        let refusal = match receive_payment_with_id(tx, command.payment_id, reported, received_at).await? {
            ReceiveOutcome::Accepted { .. } | ReceiveOutcome::Duplicate { .. } => None,
            ReceiveOutcome::LoanMissing { loan_id } => Some(LendingError::LoanMissing(loan_id).to_string()),
            ReceiveOutcome::ProviderUnknown { .. } => Some("direct payments are not accepted here".to_owned()),
            ReceiveOutcome::Conflict { .. } => {
                Some("a payment with this id was already received with different data".to_owned())
            }
        };
        let state = if refusal.is_some() { CommandState::Refused } else { CommandState::Done };
        set_command_state(tx, ProcessPayment::TYPE, command.payment_id, state, refusal.as_deref()).await?;
        Ok(())
    }
}

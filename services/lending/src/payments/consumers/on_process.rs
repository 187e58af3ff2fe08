//! `payment.process.v1`: receives a payment that was requested from us directly.

use crate::LendingError;
use crate::loans::store::set_command_state;
use crate::payments::{
    commands::receive_payment::{ReceiveOutcome, receive_payment_with_id},
    events::PaymentMethod,
    provider::{DIRECT, ReportedPayment},
};
use crate::progress::CommandState;
use crate::topology::{WorkQueue, exchanges, tenant_key};
use jiff::civil::Date;
use onceward::{Consumer, Event, Failure, Handler, Received, TenantId, Tx};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "payment.process.v1", exchange: exchanges::COMMANDS, key: "payment.process" };

/// The command to accept a payment that was requested from us directly, behind `POST /api/payments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProcessPayment {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub effective_date: Date,
    pub allocation_hints: Map<String, Value>,
}

impl Event for ProcessPayment {
    const TYPE: &'static str = "payment.process.v1";
    const EXCHANGE: &'static str = QUEUE.exchange;

    fn routing_key(&self, tenant: &TenantId) -> String {
        tenant_key(tenant, QUEUE.key)
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.loan_id.to_string())
    }
}

pub(super) fn consumer() -> Consumer {
    Consumer::transactional("process-payments", QUEUE.name).on(OnProcessPayment).into()
}

struct OnProcessPayment;

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

//! `payment.received.v1`: the validator. It handles many payments per statement.

use crate::Settings;
use crate::payments::{
    commands::validate_payment::{ReceivedPayment, ValidationOutcome, validate_payments},
    events::{PaymentMethod, loan_event},
};
use crate::topology::{WorkQueue, exchanges};
use jiff::{Timestamp, civil::Date};
use onceward::{BatchHandler, Consumer, Failure, InBatch, Tx};
use onceward_money::{Currency, Minor};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// The queue of this message.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "q.payments.received", exchange: exchanges::PAYMENT_VALIDATION, key: "received.v1" };

/// A gateway reported a payment, and it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PaymentReceived {
    pub payment_id: Uuid,
    pub loan_id: Uuid,
    pub method: PaymentMethod,
    pub amount_minor: Minor,
    pub currency: Currency,
    pub received_at: Timestamp,
    pub gateway_txn_id: String,
    /// The provider's code.
    pub source: String,
    pub idempotency_key: String,
    pub effective_date: Date,
}

loan_event!(
    PaymentReceived, "payment.received.v1", QUEUE.exchange, QUEUE.key,
    |event| Some(format!("payment.received:{}", event.payment_id)), |event| ("payment", event.payment_id),
    story: |event| Some(event.idempotency_key.clone())
);

pub(super) fn consumer(settings: &Arc<Settings>) -> Consumer {
    Consumer::transactional("validate-payments", QUEUE.name)
        .on_batch(OnPaymentReceived { settings: settings.clone() })
        .into()
}

struct OnPaymentReceived {
    settings: Arc<Settings>,
}

impl BatchHandler for OnPaymentReceived {
    type Event = PaymentReceived;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentReceived>]) -> Result<(), Failure> {
        let payments: Vec<ReceivedPayment<'_>> = batch
            .iter()
            .map(|message| ReceivedPayment { event: &message.received.event, scope: message.scope() })
            .collect();
        for outcome in validate_payments(tx, &self.settings, &payments).await? {
            match outcome {
                ValidationOutcome::Decided | ValidationOutcome::AlreadyDecided => {}
                ValidationOutcome::Unknown(reason) => return Err(Failure::permanent(reason)),
            }
        }
        Ok(())
    }
}

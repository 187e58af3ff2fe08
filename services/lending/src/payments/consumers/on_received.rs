//! `q.payments.received`: the validator. It handles many payments per statement.

use crate::Settings;
use crate::payments::{
    commands::validate_payment::{ReceivedPayment, ValidationOutcome, validate_payments},
    events::PaymentReceived,
};
use onceward::{BatchHandler, Failure, InBatch, Tx};
use std::sync::Arc;

pub(crate) struct OnPaymentReceived {
    pub settings: Arc<Settings>,
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

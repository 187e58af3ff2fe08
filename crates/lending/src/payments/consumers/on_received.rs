//! `q.payments.received`: the validator. Many payments to a statement.

use crate::Settings;
use crate::payments::{
    commands::validate::{Decided, validate_all},
    events::PaymentReceived,
};
use jiff::Timestamp;
use onceward::{BatchHandler, Failure, InBatch, Tx};
use std::sync::Arc;

pub(crate) struct OnReceived {
    pub settings: Arc<Settings>,
}

impl BatchHandler for OnReceived {
    type Event = PaymentReceived;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, PaymentReceived>]) -> Result<(), Failure> {
        let all: Vec<&PaymentReceived> = batch.iter().map(|message| &message.received.event).collect();
        let enter = |tx: &mut Tx, nth: usize| batch[nth].enter(tx);
        for decided in validate_all(tx, &self.settings, &all, Timestamp::now(), &enter).await? {
            match decided {
                Decided::Now | Decided::Before => {}
                Decided::Unknown(reason) => return Err(Failure::permanent(reason)),
            }
        }
        Ok(())
    }
}

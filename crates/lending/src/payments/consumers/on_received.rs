//! `q.payments.received`: the validator.

use crate::Settings;
use crate::payments::{
    commands::validate::{Decided, validate},
    events::PaymentReceived,
};
use jiff::Timestamp;
use onceward::{Failure, Handler, Received, Tx};
use std::sync::Arc;

pub(crate) struct OnReceived {
    pub settings: Arc<Settings>,
}

impl Handler for OnReceived {
    type Event = PaymentReceived;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PaymentReceived>) -> Result<(), Failure> {
        match validate(tx, &self.settings, &received.event, Timestamp::now()).await? {
            Decided::Now | Decided::Before => Ok(()),
            Decided::Unknown(reason) => Err(Failure::permanent(reason)),
        }
    }
}

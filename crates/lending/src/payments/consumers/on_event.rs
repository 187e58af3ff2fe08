//! `q.payments.events.audit`: facts about payments as others see them. Each is noted and counted once.

use crate::payments::{
    events::{PaymentFailed, PaymentPosted, PaymentReposted, PaymentReturned, SuspenseAllocated},
    metrics, store,
};
use onceward::{Failure, Handler, Received, Tx};

pub(crate) struct OnPosted;
pub(crate) struct OnFailed;
pub(crate) struct OnReturned;
pub(crate) struct OnReposted;
pub(crate) struct OnAllocated;

/// `None`: it was seen before.
macro_rules! note {
    ($tx:ident, $received:ident, $payment:expr) => {
        store::note_event($tx, $received.envelope, $payment, $received.event.loan_id).await?
    };
}

impl Handler for OnPosted {
    type Event = PaymentPosted;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PaymentPosted>) -> Result<(), Failure> {
        if let Some(received_at) = note!(tx, received, Some(received.event.payment_id)) {
            metrics::outbox_published();
            metrics::posted(received_at, received.envelope.occurred_at);
        }
        Ok(())
    }
}

impl Handler for OnFailed {
    type Event = PaymentFailed;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, PaymentFailed>) -> Result<(), Failure> {
        if note!(tx, received, Some(received.event.payment_id)).is_some() {
            metrics::outbox_published();
            metrics::failed(&received.event.reason);
        }
        Ok(())
    }
}

/// Facts that are only noted.
macro_rules! noted {
    ($handler:ty, $event:ty, $payment:expr) => {
        impl Handler for $handler {
            type Event = $event;

            async fn handle(&self, tx: &mut Tx, received: &Received<'_, $event>) -> Result<(), Failure> {
                let payment: fn(&$event) -> Option<uuid::Uuid> = $payment;
                if note!(tx, received, payment(&received.event)).is_some() {
                    metrics::outbox_published();
                }
                Ok(())
            }
        }
    };
}

noted!(OnReturned, PaymentReturned, |event| Some(event.payment_id));
noted!(OnReposted, PaymentReposted, |event| Some(event.payment_id));
noted!(OnAllocated, SuspenseAllocated, |_| None);

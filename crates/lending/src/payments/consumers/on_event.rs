//! `q.payments.events.audit`: facts about payments as others see them. Each is noted and counted once.

use crate::payments::{
    events::{PaymentFailed, PaymentPosted, PaymentReposted, PaymentReturned, SuspenseAllocated},
    metrics,
    store::{self, Seen},
};
use jiff::Timestamp;
use onceward::{BatchHandler, Event, Failure, InBatch, Received, Tx};
use std::marker::PhantomData;
use uuid::Uuid;

/// Notes facts of one kind.
pub(crate) struct OnFact<F>(PhantomData<fn(F)>);

impl<F> OnFact<F> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

/// A fact about a payment, or about a loan.
pub(crate) trait Fact: Event {
    /// The payment, if it is about one, and the loan.
    fn about(&self) -> (Option<Uuid>, Uuid);

    /// What is counted when it is seen for the first time.
    fn count(_received: &Received<'_, Self>, _received_at: Option<Timestamp>)
    where
        Self: Sized,
    {
    }
}

impl<F: Fact> BatchHandler for OnFact<F> {
    type Event = F;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, F>]) -> Result<(), Failure> {
        let seen: Vec<Seen<'_>> = batch
            .iter()
            .map(|message| {
                let (payment_id, loan_id) = message.received.event.about();
                Seen { envelope: message.received.envelope, payment_id, loan_id }
            })
            .collect();
        let mut fresh = store::note_events(tx, &seen).await?;
        for message in batch {
            if let Some(received_at) = fresh.remove(&message.received.envelope.event_id) {
                metrics::outbox_published();
                F::count(&message.received, received_at);
            }
        }
        Ok(())
    }
}

impl Fact for PaymentPosted {
    fn about(&self) -> (Option<Uuid>, Uuid) {
        (Some(self.payment_id), self.loan_id)
    }

    fn count(received: &Received<'_, Self>, received_at: Option<Timestamp>) {
        metrics::posted(received_at, received.envelope.occurred_at);
    }
}

impl Fact for PaymentFailed {
    fn about(&self) -> (Option<Uuid>, Uuid) {
        (Some(self.payment_id), self.loan_id)
    }

    fn count(received: &Received<'_, Self>, _received_at: Option<Timestamp>) {
        metrics::failed(&received.event.reason);
    }
}

impl Fact for PaymentReturned {
    fn about(&self) -> (Option<Uuid>, Uuid) {
        (Some(self.payment_id), self.loan_id)
    }
}

impl Fact for PaymentReposted {
    fn about(&self) -> (Option<Uuid>, Uuid) {
        (Some(self.payment_id), self.loan_id)
    }
}

impl Fact for SuspenseAllocated {
    fn about(&self) -> (Option<Uuid>, Uuid) {
        (None, self.loan_id)
    }
}

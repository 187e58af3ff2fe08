//! Payment events as other consumers see them. Each is recorded once.

use crate::payments::{
    events::{
        PaymentFailed, PaymentMoved, PaymentPosted, PaymentRefunded, PaymentReposted, PaymentReturned,
        PaymentRevalidated, SuspenseAllocated, SuspenseRefunded,
    },
    store::{self, SeenEvent},
};
use crate::topology::{WorkQueue, exchanges};
use onceward::{BatchHandler, Consumer, Event, Failure, InBatch, Tx};
use std::marker::PhantomData;
use uuid::Uuid;

/// The queue of all payment events.
pub(crate) const QUEUE: WorkQueue =
    WorkQueue { name: "q.payments.events.audit", exchange: exchanges::PAYMENT_EVENTS, key: "payment.*" };

pub(super) fn consumer() -> Consumer {
    Consumer::transactional("audit-payments", QUEUE.name)
        .on_batch(OnPaymentEvent::<PaymentPosted>::new())
        .on_batch(OnPaymentEvent::<PaymentFailed>::new())
        .on_batch(OnPaymentEvent::<PaymentReturned>::new())
        .on_batch(OnPaymentEvent::<PaymentReposted>::new())
        .on_batch(OnPaymentEvent::<SuspenseAllocated>::new())
        .on_batch(OnPaymentEvent::<SuspenseRefunded>::new())
        .on_batch(OnPaymentEvent::<PaymentRevalidated>::new())
        .on_batch(OnPaymentEvent::<PaymentMoved>::new())
        .on_batch(OnPaymentEvent::<PaymentRefunded>::new())
        .into()
}

/// Records events of one type.
struct OnPaymentEvent<E>(PhantomData<fn(E)>);

impl<E> OnPaymentEvent<E> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

/// An event about a payment, or about a loan's suspense.
trait PaymentEvent: Event {
    /// Returns the payment, if the event is about one, and the loan.
    fn subject(&self) -> (Option<Uuid>, Uuid);
}

impl<E: PaymentEvent> BatchHandler for OnPaymentEvent<E> {
    type Event = E;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, E>]) -> Result<(), Failure> {
        let seen: Vec<SeenEvent<'_>> = batch
            .iter()
            .map(|message| {
                let (payment_id, loan_id) = message.received.event.subject();
                SeenEvent { envelope: message.received.envelope, payment_id, loan_id }
            })
            .collect();
        store::record_seen_events(tx, &seen).await?;
        Ok(())
    }
}

macro_rules! about_a_payment {
    ($($event:ty),*) => {
        $(impl PaymentEvent for $event {
            fn subject(&self) -> (Option<Uuid>, Uuid) {
                (Some(self.payment_id), self.loan_id)
            }
        })*
    };
}

macro_rules! about_suspense {
    ($($event:ty),*) => {
        $(impl PaymentEvent for $event {
            fn subject(&self) -> (Option<Uuid>, Uuid) {
                (None, self.loan_id)
            }
        })*
    };
}

about_a_payment!(
    PaymentPosted,
    PaymentFailed,
    PaymentReturned,
    PaymentReposted,
    PaymentRevalidated,
    PaymentMoved,
    PaymentRefunded
);
about_suspense!(SuspenseAllocated, SuspenseRefunded);

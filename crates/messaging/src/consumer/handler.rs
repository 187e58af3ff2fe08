//! What a service writes to handle an event, and how the engine calls it without knowing its type.

use crate::{Event, Failure, Received};
use futures_util::future::BoxFuture;
use onceward_db::{Scope, Tx};
use onceward_envelope::EventType;
use onceward_transport::Delivery;
use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    future::Future,
};
use tokio_util::sync::CancellationToken;

/// Handles an event within the transaction that settles it. It may run more than once for the same
/// message, but only one run's effects are ever committed.
pub trait Handler: Send + Sync {
    /// What it handles.
    type Event: Event;

    /// Does the work. An error rolls back everything this call did in `tx`.
    fn handle(
        &self,
        tx: &mut Tx,
        received: &Received<'_, Self::Event>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Handles many events of one type and one tenant at once, within the transaction that settles them: for work that asks the
/// database one question for all of them instead of one for each.
///
/// An error undoes the whole batch, and its messages come again one at a time, each in a batch of its own, so that one bad
/// message does not keep its neighbours. Messages of one key are in their order.
pub trait BatchHandler: Send + Sync {
    /// What it handles.
    type Event: Event;

    /// Does the work of all of `batch`, which is never empty.
    fn handle_all(
        &self,
        tx: &mut Tx,
        batch: &[InBatch<'_, Self::Event>],
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// One message of a batch.
#[derive(Clone, Debug)]
pub struct InBatch<'m, E> {
    /// The message.
    pub received: Received<'m, E>,
    scope: &'m Scope,
}

impl<E> InBatch<'_, E> {
    /// What is published or audited from here on is caused by this message and belongs to its story.
    pub fn enter(&self, tx: &mut Tx) {
        tx.enter(self.scope.clone());
    }
}

/// Handles an event that needs the outside world: first the call, without a transaction, then the
/// record of it, in the transaction that settles the message.
pub trait LeasedHandler: Send + Sync {
    /// What it handles.
    type Event: Event;
    /// What the call brought.
    type Work: Send;

    /// Does the outside work. It may be repeated after a crash: hand `received.envelope.idempotency_key` on.
    fn perform(
        &self,
        context: &LeaseContext,
        received: &Received<'_, Self::Event>,
    ) -> impl Future<Output = Result<Self::Work, Failure>> + Send;

    /// Records the result.
    fn record(
        &self,
        tx: &mut Tx,
        received: &Received<'_, Self::Event>,
        work: Self::Work,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What a leased handler may ask about its lease.
#[derive(Clone, Debug)]
pub struct LeaseContext {
    /// Fires when the lease was lost or the process is asked to stop.
    pub cancelled: CancellationToken,
}

/// Handlers by event name and version, and one for whatever has none of its own.
#[derive(Clone)]
pub(crate) struct Table<H> {
    typed: HashMap<String, BTreeMap<u16, H>>,
    pub(crate) any: Option<H>,
}

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self { typed: HashMap::new(), any: None }
    }
}

/// Who handles a version.
pub(crate) enum Found<'a, H> {
    Handler(&'a H),
    /// The handler for whatever has none of its own.
    Any(&'a H),
    /// Newer than anything known here.
    Newer,
    /// Older than anything known here, or a gap.
    Retired,
}

impl<H> Table<H> {
    pub(crate) fn insert(&mut self, event_type: EventType, handler: H) {
        let versions = self.typed.entry(event_type.name().to_owned()).or_default();
        assert!(versions.insert(event_type.version(), handler).is_none(), "{event_type} has two handlers");
    }

    pub(crate) fn find(&self, event_type: &EventType) -> Found<'_, H> {
        let versions = self.typed.get(event_type.name());
        let handler = versions.and_then(|versions| versions.get(&event_type.version()));
        match (handler, &self.any, versions) {
            (Some(handler), _, _) => Found::Handler(handler),
            (None, Some(any), _) => Found::Any(any),
            (None, None, Some(versions)) if versions.keys().any(|known| *known > event_type.version()) => {
                Found::Retired
            }
            _ => Found::Newer,
        }
    }

    pub(crate) fn event_types(&self) -> Vec<EventType> {
        let mut all: Vec<EventType> = self
            .typed
            .iter()
            .flat_map(|(name, versions)| versions.keys().filter_map(move |version| EventType::new(name, *version).ok()))
            .collect();
        all.sort_by_key(ToString::to_string);
        all
    }
}

/// A message and the scope in which it is handled.
pub(crate) struct Handed<'d> {
    pub delivery: &'d Delivery,
    pub scope: Scope,
}

pub(crate) trait ErasedHandler: Send + Sync {
    /// It takes more than one message at a time.
    fn takes_many(&self) -> bool;
    /// Handles what is handed over: one message, or some of one tenant. The transaction is in the first one's scope.
    fn handle<'a>(&'a self, tx: &'a mut Tx, handed: &'a [Handed<'a>]) -> BoxFuture<'a, Result<(), Failure>>;
}

pub(crate) struct Typed<H>(pub H);

impl<H: Handler> ErasedHandler for Typed<H> {
    fn takes_many(&self) -> bool {
        false
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, handed: &'a [Handed<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            for Handed { delivery, .. } in handed {
                self.0.handle(tx, &typed(delivery)?).await?;
            }
            Ok(())
        })
    }
}

pub(crate) struct TypedBatch<H>(pub H);

impl<H: BatchHandler> ErasedHandler for TypedBatch<H> {
    fn takes_many(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, handed: &'a [Handed<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let batch: Vec<_> = handed
                .iter()
                .map(|handed| Ok(InBatch { received: typed(handed.delivery)?, scope: &handed.scope }))
                .collect::<Result<_, Failure>>()?;
            self.0.handle_all(tx, &batch).await
        })
    }
}

pub(crate) trait ErasedLeased: Send + Sync {
    fn perform<'a>(
        &'a self,
        context: &'a LeaseContext,
        delivery: &'a Delivery,
    ) -> BoxFuture<'a, Result<Box<dyn Any + Send>, Failure>>;
    fn record<'a>(
        &'a self,
        tx: &'a mut Tx,
        delivery: &'a Delivery,
        work: Box<dyn Any + Send>,
    ) -> BoxFuture<'a, Result<(), Failure>>;
}

pub(crate) struct TypedLeased<H>(pub H);

impl<H: LeasedHandler> ErasedLeased for TypedLeased<H>
where
    H::Work: 'static,
{
    fn perform<'a>(
        &'a self,
        context: &'a LeaseContext,
        delivery: &'a Delivery,
    ) -> BoxFuture<'a, Result<Box<dyn Any + Send>, Failure>> {
        Box::pin(async move {
            let received = typed(delivery)?;
            let work = self.0.perform(context, &received).await?;
            Ok(Box::new(work) as Box<dyn Any + Send>)
        })
    }

    fn record<'a>(
        &'a self,
        tx: &'a mut Tx,
        delivery: &'a Delivery,
        work: Box<dyn Any + Send>,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let received = typed(delivery)?;
            let work = *work.downcast::<H::Work>().expect("the handler's own work comes back to it");
            self.0.record(tx, &received, work).await
        })
    }
}

fn typed<E: Event>(delivery: &Delivery) -> Result<Received<'_, E>, Failure> {
    let event = E::deserialize(delivery.envelope.payload.value()).map_err(|error| {
        Failure::permanent(format!("the payload fits its schema but not the handler's type: {error}"))
    })?;
    Ok(Received { event, envelope: &delivery.envelope, attempt: delivery.attempt })
}

//! What a service writes to handle an event, and how the engine calls it without knowing its type.

use crate::{Event, Failure, Received};
use futures_util::future::BoxFuture;
use onceward_db::Tx;
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

/// Handlers by event name and version.
#[derive(Clone)]
pub(crate) struct Table<H>(HashMap<String, BTreeMap<u16, H>>);

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// Who handles a version.
pub(crate) enum Found<'a, H> {
    Handler(&'a H),
    /// Newer than anything known here.
    Newer,
    /// Older than anything known here, or a gap.
    Retired,
}

impl<H> Table<H> {
    pub(crate) fn insert(&mut self, event_type: EventType, handler: H) {
        let versions = self.0.entry(event_type.name().to_owned()).or_default();
        assert!(versions.insert(event_type.version(), handler).is_none(), "{event_type} has two handlers");
    }

    pub(crate) fn find(&self, event_type: &EventType) -> Found<'_, H> {
        let Some(versions) = self.0.get(event_type.name()) else {
            return Found::Newer;
        };
        match versions.get(&event_type.version()) {
            Some(handler) => Found::Handler(handler),
            None if versions.keys().any(|known| *known > event_type.version()) => Found::Retired,
            None => Found::Newer,
        }
    }

    pub(crate) fn event_types(&self) -> Vec<EventType> {
        let mut all: Vec<EventType> = self
            .0
            .iter()
            .flat_map(|(name, versions)| versions.keys().filter_map(move |version| EventType::new(name, *version).ok()))
            .collect();
        all.sort_by_key(ToString::to_string);
        all
    }
}

pub(crate) trait ErasedHandler: Send + Sync {
    fn handle<'a>(&'a self, tx: &'a mut Tx, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), Failure>>;
}

pub(crate) struct Typed<H>(pub H);

impl<H: Handler> ErasedHandler for Typed<H> {
    fn handle<'a>(&'a self, tx: &'a mut Tx, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let received = typed(delivery)?;
            self.0.handle(tx, &received).await
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

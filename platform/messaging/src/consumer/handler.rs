//! The traits that services implement to handle events, and how the engine calls them without knowing their types.

use crate::{Event, Failure, Received, outbox::deadline_of};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use onceward_broker::Delivery;
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_envelope::EventType;
use onceward_outbound::{Outbound, OutboundCall};
use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    future::Future,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Handles an event within the transaction that settles it. It may run more than once for the same
/// message, but only one run's effects are ever committed.
pub trait Handler: Send + Sync {
    /// The event type it handles.
    type Event: Event;

    /// Handles the event. An error rolls back everything this call did in `tx`.
    fn handle(
        &self,
        tx: &mut Tx,
        received: &Received<'_, Self::Event>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Handles many events of one type and one tenant at once, within the transaction that settles them: for handlers that
/// can send the database one query for the whole batch instead of one per message.
///
/// An error undoes the whole batch, and its messages are delivered again one at a time, each in a separate batch, so
/// that one bad message does not block the others. Messages of one key are in order.
pub trait BatchHandler: Send + Sync {
    /// The event type it handles.
    type Event: Event;

    /// Handles all of `batch`, which is never empty.
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
    span: &'m tracing::Span,
}

impl<E> InBatch<'_, E> {
    /// The message's scope: its tenant, its story, and the message itself as the cause. Messages for it are published
    /// with [`crate::outbox::publish_as`].
    pub fn scope(&self) -> &Scope {
        self.scope
    }

    /// Enters the message's scope: anything published or audited from here on is caused by this message and belongs to
    /// its story.
    pub fn enter(&self, tx: &mut Tx) {
        tx.enter(self.scope.clone());
    }

    /// The message's own span, in its own trace: run work for this message alone within it (`.instrument`).
    pub fn span(&self) -> tracing::Span {
        self.span.clone()
    }
}

/// Handles an event that needs the outside world: first the call, without a transaction, then the record of its
/// result, in the transaction that settles the message.
pub trait LeasedHandler: Send + Sync {
    /// The event type it handles.
    type Event: Event;
    /// The result of the call.
    type Work: Send + Sync;

    /// Performs the external call. It may be repeated after a crash: pass on `received.envelope.idempotency_key`.
    fn perform(
        &self,
        context: &LeaseContext,
        received: &Received<'_, Self::Event>,
    ) -> impl Future<Output = Result<Self::Work, Failure>> + Send;

    /// Records the result in the transaction that settles the message. Results that wait at the same time share that
    /// transaction. If it fails, this is called again for each of them, so everything it does belongs into `tx`.
    fn record(
        &self,
        tx: &mut Tx,
        received: &Received<'_, Self::Event>,
        work: &Self::Work,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The state of a leased handler's lease, and the way to the outside world.
#[derive(Clone)]
pub struct LeaseContext {
    /// Cancelled when the lease is lost, or when the process stops and its grace period is nearly over.
    pub cancelled: CancellationToken,
    /// The destinations that the services declared.
    pub outbound: Outbound,
    pub(crate) db: Db,
    pub(crate) scope: Scope,
}

impl LeaseContext {
    /// Begins a transaction in the scope of the message, for what must be committed before the call or although it failed:
    /// a handler that must not repeat a call records here that it is about to make it.
    pub async fn begin(&self) -> Result<Tx, DbError> {
        self.db.begin(self.scope.clone()).await
    }

    /// Prepares a call to a destination on behalf of a message: for its tenant, within its deadline, and as a retry if an
    /// earlier attempt failed. Fails if no service declares the destination.
    pub fn call<E>(&self, destination: &str, received: &Received<'_, E>) -> Result<OutboundCall, Failure> {
        let envelope = received.envelope;
        let call = self.outbound.call(destination)?;
        let call = call.tenant(envelope.tenant_id.as_str()).retry(received.attempt > 1);
        Ok(match deadline_of(envelope) {
            Some(deadline) => {
                let left = deadline.duration_since(Timestamp::now());
                call.deadline(Instant::now() + Duration::try_from(left).unwrap_or_default())
            }
            None => call,
        })
    }
}

/// Handlers by event name and version, and a fallback for all other types.
#[derive(Clone)]
pub(crate) struct HandlerTable<H> {
    typed: HashMap<String, BTreeMap<u16, H>>,
    pub(crate) any: Option<H>,
}

impl<H> Default for HandlerTable<H> {
    fn default() -> Self {
        Self { typed: HashMap::new(), any: None }
    }
}

/// The result of looking up the handler for a version.
pub(crate) enum HandlerLookup<'a, H> {
    Handler(&'a H),
    /// The fallback handler, for types without a handler of their own.
    Any(&'a H),
    /// The version is newer than any known here.
    Newer,
    /// The version is older than any known here, or missing between known ones.
    Retired,
}

impl<H> HandlerTable<H> {
    pub(crate) fn insert(&mut self, event_type: EventType, handler: H) {
        let versions = self.typed.entry(event_type.name().to_owned()).or_default();
        assert!(versions.insert(event_type.version(), handler).is_none(), "{event_type} has two handlers");
    }

    pub(crate) fn find(&self, event_type: &EventType) -> HandlerLookup<'_, H> {
        let versions = self.typed.get(event_type.name());
        let handler = versions.and_then(|versions| versions.get(&event_type.version()));
        match (handler, &self.any, versions) {
            (Some(handler), _, _) => HandlerLookup::Handler(handler),
            (None, Some(any), _) => HandlerLookup::Any(any),
            (None, None, Some(versions)) if versions.keys().any(|known| *known > event_type.version()) => {
                HandlerLookup::Retired
            }
            _ => HandlerLookup::Newer,
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
pub(crate) struct HandlerInput<'d> {
    pub delivery: &'d Delivery,
    pub scope: Scope,
    pub span: tracing::Span,
}

pub(crate) trait ErasedHandler: Send + Sync {
    /// Whether it handles more than one message at a time.
    fn takes_many(&self) -> bool;
    /// Handles one message, or several of one tenant. The transaction is in the scope of the first one.
    fn handle<'a>(&'a self, tx: &'a mut Tx, inputs: &'a [HandlerInput<'a>]) -> BoxFuture<'a, Result<(), Failure>>;
}

pub(crate) struct TypedHandler<H>(pub H);

impl<H: Handler> ErasedHandler for TypedHandler<H> {
    fn takes_many(&self) -> bool {
        false
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, inputs: &'a [HandlerInput<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            for HandlerInput { delivery, .. } in inputs {
                self.0.handle(tx, &decode(delivery)?).await?;
            }
            Ok(())
        })
    }
}

pub(crate) struct TypedBatchHandler<H>(pub H);

impl<H: BatchHandler> ErasedHandler for TypedBatchHandler<H> {
    fn takes_many(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, inputs: &'a [HandlerInput<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let batch: Vec<_> = inputs
                .iter()
                .map(|input| Ok(InBatch { received: decode(input.delivery)?, scope: &input.scope, span: &input.span }))
                .collect::<Result<_, Failure>>()?;
            self.0.handle_all(tx, &batch).await
        })
    }
}

/// The result of a leased call, of the handler's own type.
pub(crate) type LeasedWork = Box<dyn Any + Send + Sync>;

pub(crate) trait ErasedLeasedHandler: Send + Sync {
    fn perform<'a>(
        &'a self,
        context: &'a LeaseContext,
        delivery: &'a Delivery,
    ) -> BoxFuture<'a, Result<LeasedWork, Failure>>;
    fn record<'a>(
        &'a self,
        tx: &'a mut Tx,
        delivery: &'a Delivery,
        work: &'a LeasedWork,
    ) -> BoxFuture<'a, Result<(), Failure>>;
}

pub(crate) struct TypedLeasedHandler<H>(pub H);

impl<H: LeasedHandler> ErasedLeasedHandler for TypedLeasedHandler<H>
where
    H::Work: 'static,
{
    fn perform<'a>(
        &'a self,
        context: &'a LeaseContext,
        delivery: &'a Delivery,
    ) -> BoxFuture<'a, Result<LeasedWork, Failure>> {
        Box::pin(async move {
            let received = decode(delivery)?;
            let work = self.0.perform(context, &received).await?;
            Ok(Box::new(work) as LeasedWork)
        })
    }

    fn record<'a>(
        &'a self,
        tx: &'a mut Tx,
        delivery: &'a Delivery,
        work: &'a LeasedWork,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let received = decode(delivery)?;
            let work = work.downcast_ref::<H::Work>().expect("a handler records the work that it performed");
            self.0.record(tx, &received, work).await
        })
    }
}

/// Decodes the payload of a message.
fn decode<E: Event>(delivery: &Delivery) -> Result<Received<'_, E>, Failure> {
    let event = E::deserialize(delivery.envelope.payload.value()).map_err(|error| {
        Failure::permanent(format!("the payload fits its schema but not the handler's type: {error}"))
    })?;
    Ok(Received { event, envelope: &delivery.envelope, attempt: delivery.attempt })
}

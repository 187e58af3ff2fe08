//! Consumers: which handlers a queue has, and how they run.

mod any;
mod delivery_check;
mod engine;
mod handler;
mod held_leases;
mod leased;
mod options;
mod pools;
mod result_recorder;
mod retries;
pub(crate) mod run;
mod slots;
mod transactional;
mod unknown_types;

use crate::Event;
use any::UntypedHandler;
use handler::{ErasedHandler, ErasedLeasedHandler, HandlerTable, TypedBatchHandler, TypedHandler, TypedLeasedHandler};
use onceward_envelope::EventType;
use onceward_topology::RetryPolicy;
use options::{ConsumerOptions, shared_options};
use std::{sync::Arc, time::Duration};

pub use any::AnyHandler;
pub use handler::{BatchHandler, Handler, InBatch, LeaseContext, LeasedHandler};
pub use pools::WorkerPools;
pub use run::{WorkerContext, run};
pub use slots::Slots;

/// The mode in which messages are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerMode {
    /// In one transaction with their settlement, many per commit. For handlers that only use the database.
    Transactional,
    /// Outside any transaction, under a lease. For handlers that call the outside world.
    Leased,
}

/// A consumer, declared as a value by one of its two builders.
#[derive(Clone)]
pub struct Consumer {
    options: ConsumerOptions,
    handlers: Handlers,
}

#[derive(Clone)]
enum Handlers {
    Transactional(HandlerTable<Arc<dyn ErasedHandler>>),
    Leased(HandlerTable<Arc<dyn ErasedLeasedHandler>>),
}

/// Builds a consumer that handles messages in the transaction that settles them.
#[derive(Clone)]
pub struct TransactionalConsumer {
    options: ConsumerOptions,
    handlers: HandlerTable<Arc<dyn ErasedHandler>>,
}

/// Builds a consumer that handles messages outside any transaction, under leases.
#[derive(Clone)]
pub struct LeasedConsumer {
    options: ConsumerOptions,
    handlers: HandlerTable<Arc<dyn ErasedLeasedHandler>>,
}

shared_options!(TransactionalConsumer);
shared_options!(LeasedConsumer);

impl TransactionalConsumer {
    /// Adds a handler for an event type. Panics if the type already has one.
    pub fn on<H: Handler + 'static>(mut self, handler: H) -> Self {
        self.handlers.insert(event_type::<H::Event>(), Arc::new(TypedHandler(handler)));
        self
    }

    /// Adds a handler that receives all messages of a turn with this type and the same tenant at once. Panics if the
    /// type already has a handler.
    pub fn on_batch<H: BatchHandler + 'static>(mut self, handler: H) -> Self {
        self.handlers.insert(event_type::<H::Event>(), Arc::new(TypedBatchHandler(handler)));
        self
    }

    /// Sets the handler of all types that have no handler of their own here.
    pub fn on_any<H: AnyHandler + 'static>(mut self, handler: H) -> Self {
        self.handlers.any = Some(Arc::new(UntypedHandler(handler)));
        self
    }
}

impl LeasedConsumer {
    /// Adds a handler for an event type. Panics if the type already has one.
    pub fn on<H: LeasedHandler + 'static>(mut self, handler: H) -> Self {
        self.handlers.insert(event_type::<H::Event>(), Arc::new(TypedLeasedHandler(handler)));
        self
    }

    /// Sets how long a lease lasts without a heartbeat; heartbeats are sent at a third of that interval.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }
}

impl From<TransactionalConsumer> for Consumer {
    fn from(TransactionalConsumer { options, handlers }: TransactionalConsumer) -> Self {
        Self { options, handlers: Handlers::Transactional(handlers) }
    }
}

impl From<LeasedConsumer> for Consumer {
    fn from(LeasedConsumer { options, handlers }: LeasedConsumer) -> Self {
        Self { options, handlers: Handlers::Leased(handlers) }
    }
}

impl Consumer {
    /// Builds a consumer that handles messages in the transaction that settles them: two turns at a time, 500 messages
    /// each.
    pub fn transactional(name: &str, queue: &str) -> TransactionalConsumer {
        TransactionalConsumer { options: ConsumerOptions::new(name, queue, 2, 500), handlers: HandlerTable::default() }
    }

    /// Builds a consumer that handles messages under leases: ten at a time.
    pub fn leased(name: &str, queue: &str) -> LeasedConsumer {
        LeasedConsumer { options: ConsumerOptions::new(name, queue, 10, 10), handlers: HandlerTable::default() }
    }

    /// The consumer's name.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// The queue it reads.
    pub fn queue(&self) -> &str {
        &self.options.queue
    }

    /// The retry policy.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.options.retry
    }

    /// The time limit of one attempt.
    pub fn time_limit(&self) -> Duration {
        self.options.timeout
    }

    /// Whether it preserves the order of keys.
    pub fn is_ordered(&self) -> bool {
        self.options.ordered
    }

    /// Whether its dead letters hold their keys.
    pub fn holds_keys(&self) -> bool {
        self.options.ordered && self.options.holds_keys
    }

    /// The mode it runs in.
    pub fn mode(&self) -> ConsumerMode {
        match self.handlers {
            Handlers::Transactional(_) => ConsumerMode::Transactional,
            Handlers::Leased(_) => ConsumerMode::Leased,
        }
    }

    /// Whether it handles messages of every type.
    pub fn handles_any(&self) -> bool {
        matches!(&self.handlers, Handlers::Transactional(table) if table.any.is_some())
    }

    /// The event types for which it has a typed handler.
    pub fn event_types(&self) -> Vec<EventType> {
        match &self.handlers {
            Handlers::Transactional(table) => table.event_types(),
            Handlers::Leased(table) => table.event_types(),
        }
    }
}

fn event_type<E: Event>() -> EventType {
    E::TYPE.parse().unwrap_or_else(|error| panic!("\"{}\" is not an event type: {error}", E::TYPE))
}

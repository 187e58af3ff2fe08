//! Consumers: who handles what, and how.

mod any;
mod check;
mod handler;
mod leased;
mod outcome;
mod slots;
mod transactional;
pub(crate) mod worker;

use crate::Event;
use any::Any;
use handler::{ErasedHandler, ErasedLeased, Table, Typed, TypedBatch, TypedLeased};
use onceward_envelope::EventType;
use onceward_topology::{RetryBudget, RetryPolicy};
use std::{sync::Arc, time::Duration};

pub use any::AnyHandler;
pub use handler::{BatchHandler, Handler, InBatch, LeaseContext, LeasedHandler};
pub use slots::Slots;
pub use worker::{Worker, WorkerContext};

/// How messages are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In one transaction with their settlement, many to a commit. For handlers that only touch the database.
    Transactional,
    /// Outside any transaction, under a lease. For handlers that call the outside world.
    Leased,
}

/// A consumer, declared as a value.
#[derive(Clone)]
pub struct Consumer {
    name: String,
    queue: String,
    mode: Mode,
    concurrency: usize,
    prefetch: usize,
    precedence: u8,
    retry: RetryPolicy,
    budget: RetryBudget,
    ordered: bool,
    timeout: Duration,
    lease: Duration,
    handlers: Table<Arc<dyn ErasedHandler>>,
    leased: Table<Arc<dyn ErasedLeased>>,
}

impl Consumer {
    fn new(name: &str, queue: &str, mode: Mode, concurrency: usize, prefetch: usize) -> Self {
        Self {
            name: name.to_owned(),
            queue: queue.to_owned(),
            mode,
            concurrency,
            prefetch,
            precedence: 0,
            retry: RetryPolicy::default(),
            budget: RetryBudget::default(),
            ordered: true,
            timeout: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            handlers: Table::default(),
            leased: Table::default(),
        }
    }

    /// Handles messages in the transaction that settles them: two turns at a time, 500 messages each.
    pub fn transactional(name: &str, queue: &str) -> Self {
        Self::new(name, queue, Mode::Transactional, 2, 500)
    }

    /// Handles messages under leases: ten at a time.
    pub fn leased(name: &str, queue: &str) -> Self {
        Self::new(name, queue, Mode::Leased, 10, 10)
    }

    /// Adds a handler for an event type. Panics in leased mode, where it could never run.
    pub fn on<H: Handler + 'static>(mut self, handler: H) -> Self {
        assert_eq!(self.mode, Mode::Transactional, "{}: a leased consumer takes `on_leased`", self.name);
        self.handlers.insert(event_type::<H::Event>(), Arc::new(Typed(handler)));
        self
    }

    /// Adds a handler that takes all messages of a turn that are of this type and of one tenant at once. Panics in leased mode.
    pub fn on_batch<H: BatchHandler + 'static>(mut self, handler: H) -> Self {
        assert_eq!(self.mode, Mode::Transactional, "{}: a leased consumer takes `on_leased`", self.name);
        self.handlers.insert(event_type::<H::Event>(), Arc::new(TypedBatch(handler)));
        self
    }

    /// Adds a handler for messages of every type that has none of its own here. Panics in leased mode.
    pub fn on_any<H: AnyHandler + 'static>(mut self, handler: H) -> Self {
        assert_eq!(self.mode, Mode::Transactional, "{}: a leased consumer takes `on_leased`", self.name);
        self.handlers.any = Some(Arc::new(Any(handler)));
        self
    }

    /// Adds a handler for an event type. Panics in transactional mode, where it could never run.
    pub fn on_leased<H: LeasedHandler + 'static>(mut self, handler: H) -> Self {
        assert_eq!(self.mode, Mode::Leased, "{}: a transactional consumer takes `on`", self.name);
        self.leased.insert(event_type::<H::Event>(), Arc::new(TypedLeased(handler)));
        self
    }

    /// How many turns (transactional) or messages (leased) are handled at the same time.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// How many messages are taken at a time: the size of a turn, or of a fetch of leases.
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.prefetch = prefetch.max(1);
        self
    }

    /// Its rank among the consumers of a process when there are not enough slots (`workers.slots`) for all: higher goes
    /// first, and what is lower waits for as long as that has work. 0 by itself.
    pub fn precedence(mut self, precedence: u8) -> Self {
        self.precedence = precedence;
        self
    }

    /// When and how often a failed message is tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// How many retries may run beside first attempts before they are slowed down.
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Gives up the order of keys: a waiting message holds up nobody.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// How long one message may be handled, or one batch.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a lease lasts without a heartbeat; a heartbeat is sent every third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The consumer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue it reads.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// It keeps the order of keys.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// The mode it runs in.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// It handles messages of every type.
    pub fn handles_any(&self) -> bool {
        self.handlers.any.is_some()
    }

    /// The event types it handles by name.
    pub fn event_types(&self) -> Vec<EventType> {
        match self.mode {
            Mode::Transactional => self.handlers.event_types(),
            Mode::Leased => self.leased.event_types(),
        }
    }
}

fn event_type<E: Event>() -> EventType {
    E::TYPE.parse().unwrap_or_else(|error| panic!("\"{}\" is not an event type: {error}", E::TYPE))
}

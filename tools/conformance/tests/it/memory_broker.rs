//! An in-memory broker that fulfils the contract or violates one part of it.

use async_trait::async_trait;
use onceward_broker::{
    Arrival, Backlog, Broker, BrokerConfig, BrokerError, Capabilities, Parcel, PublishOutcome, ReceiveOptions,
    Receiver, TopologyDifference, wire,
};
use onceward_conformance::broker::BrokerHarness;
use onceward_topology::{Binding, DeadLetter, ExchangeKind, Topology, pattern};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

const MAX_BODY_BYTES: usize = 1 << 20;

/// A violation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    CheckReportsNothing,
    CountsNothingWaiting,
    ReportsNoAge,
    AcceptsUnroutable,
    AcceptsTooLarge,
    AcceptsForMissingExchanges,
    TreatsStarAsHash,
    OneCopyPerBinding,
    IgnoresPrefetch,
    RedeliversAccepted,
    LosesUnaccepted,
    ReturnsToTheEnd,
    CountsNoDeliveries,
    LimitsNoDeliveries,
    DiscardsDeadLetters,
    ReversesBatches,
    AllowsSecondReader,
    ReadsBodiesAsText,
    DropsEmptyHeaders,
}

pub struct MemoryHarness {
    server: Arc<Server>,
}

impl MemoryHarness {
    pub fn correct() -> Self {
        Self { server: Arc::new(Server { fault: None, state: Mutex::default(), changed: Notify::new() }) }
    }

    pub fn with(fault: Fault) -> Self {
        Self { server: Arc::new(Server { fault: Some(fault), state: Mutex::default(), changed: Notify::new() }) }
    }
}

impl BrokerHarness for MemoryHarness {
    fn url(&self) -> String {
        "memory://here".to_owned()
    }

    fn broker(&self, _config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(MemoryBroker { server: self.server.clone(), topology, closed: Arc::default() })
    }

    fn uses_network(&self) -> bool {
        false
    }

    fn timeout(&self) -> Duration {
        if self.server.fault.is_some() { Duration::from_secs(3) } else { onceward_testkit::PATIENCE }
    }
}

struct Server {
    fault: Option<Fault>,
    state: Mutex<ServerState>,
    changed: Notify,
}

#[derive(Default)]
struct ServerState {
    exchanges: BTreeMap<String, ExchangeKind>,
    queues: BTreeMap<String, StoredQueue>,
    bindings: Vec<Binding>,
    readers: u64,
}

#[derive(Default)]
struct StoredQueue {
    messages: VecDeque<StoredMessage>,
    reader: Option<u64>,
    limit: Option<u16>,
    dead_letter: Option<DeadLetter>,
}

/// A message keeps its position while a reader holds it.
struct StoredMessage {
    arrival: Arrival,
    routing_key: String,
    held_by: Option<u64>,
}

impl Server {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    /// Returns how many queues took it; `None` if the exchange does not exist.
    fn route(&self, state: &mut ServerState, exchange: &str, key: &str, arrival: &Arrival) -> Option<usize> {
        let kind = *state.exchanges.get(exchange)?;
        let bound = state.bindings.iter().filter(|binding| binding.exchange == exchange);
        let matching = bound.filter(|binding| {
            let pattern = &binding.pattern;
            let pattern = if self.is(Fault::TreatsStarAsHash) { pattern.replace('*', "#") } else { pattern.clone() };
            pattern::matches(kind, &pattern, key)
        });
        let mut queues: Vec<String> = matching.map(|binding| binding.queue.clone()).collect();
        queues.sort();
        if !self.is(Fault::OneCopyPerBinding) {
            queues.dedup();
        }
        for queue in &queues {
            let message = StoredMessage { arrival: arrival.clone(), routing_key: key.to_owned(), held_by: None };
            state.queues.get_mut(queue)?.messages.push_back(message);
        }
        Some(queues.len())
    }

    fn publish(&self, parcel: &Parcel) -> PublishOutcome {
        if parcel.body.len() > MAX_BODY_BYTES && !self.is(Fault::AcceptsTooLarge) {
            return PublishOutcome::Refused("too large".to_owned());
        }
        let headers = parcel.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut arrival = Arrival { headers, body: parcel.body.clone(), redeliveries: 0 };
        if self.is(Fault::DropsEmptyHeaders) {
            arrival.headers.retain(|(_, value)| !value.is_empty());
        }
        if self.is(Fault::ReadsBodiesAsText) {
            arrival.body = String::from_utf8_lossy(&parcel.body).into_owned().into();
        }
        match self.route(&mut self.state(), &parcel.topic.exchange, &parcel.topic.routing_key, &arrival) {
            None if !self.is(Fault::AcceptsForMissingExchanges) => {
                PublishOutcome::Refused("no such exchange".to_owned())
            }
            Some(0) if parcel.expected && !self.is(Fault::AcceptsUnroutable) => {
                PublishOutcome::Refused("no queue is bound".to_owned())
            }
            _ => PublishOutcome::Accepted,
        }
    }

    /// Puts a reader's unaccepted messages back into the queue; those delivered too often become dead letters.
    fn return_unaccepted(&self, queue: &str, reader: u64, discard: bool) {
        let mut state = self.state();
        let stored = state.queues.get_mut(queue).expect("an open queue exists");
        let (limit, dead_letter) = (stored.limit, stored.dead_letter.clone());
        let mut dead = Vec::new();
        let mut returned = VecDeque::new();
        let mut remaining = VecDeque::new();
        for mut message in stored.messages.drain(..) {
            if message.held_by != Some(reader) {
                remaining.push_back(message);
                continue;
            }
            message.held_by = None;
            message.arrival.redeliveries += u32::from(!self.is(Fault::CountsNoDeliveries));
            let too_often = limit.is_some_and(|limit| message.arrival.redeliveries >= u32::from(limit));
            if discard {
                continue;
            } else if too_often && !self.is(Fault::LimitsNoDeliveries) {
                dead.push(message);
            } else if self.is(Fault::ReturnsToTheEnd) {
                returned.push_back(message);
            } else {
                remaining.push_back(message);
            }
        }
        remaining.extend(returned);
        stored.messages = remaining;
        if let Some(dead_letter) = dead_letter.filter(|_| !self.is(Fault::DiscardsDeadLetters)) {
            for message in dead {
                let key = dead_letter.routing_key.clone().unwrap_or(message.routing_key);
                self.route(&mut state, &dead_letter.exchange, &key, &message.arrival);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

struct MemoryBroker {
    server: Arc<Server>,
    topology: Topology,
    closed: Arc<Mutex<bool>>,
}

impl MemoryBroker {
    /// Returns what is missing on the server, and creates it if `create` is set.
    fn missing(&self, create: bool) -> Vec<String> {
        let mut state = self.server.state();
        let mut missing = Vec::new();
        for exchange in &self.topology.exchanges {
            if !state.exchanges.contains_key(&exchange.name) {
                missing.push(format!("exchange {}", exchange.name));
                create.then(|| state.exchanges.insert(exchange.name.clone(), exchange.kind));
            }
        }
        for queue in &self.topology.queues {
            if !state.queues.contains_key(&queue.name) {
                missing.push(format!("queue {}", queue.name));
                let (limit, dead_letter) = (queue.delivery_limit, queue.dead_letter.clone());
                let stored = StoredQueue { limit, dead_letter, ..StoredQueue::default() };
                create.then(|| state.queues.insert(queue.name.clone(), stored));
            }
        }
        for binding in &self.topology.bindings {
            if !state.bindings.contains(binding) {
                missing.push(format!("binding {} of {}", binding.pattern, binding.queue));
                create.then(|| state.bindings.push(binding.clone()));
            }
        }
        missing
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_deliveries: true,
            limits_deliveries: true,
            refuses_unroutable: true,
            reports_age: true,
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        Ok(self.missing(true))
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        let missing = if self.server.is(Fault::CheckReportsNothing) { Vec::new() } else { self.missing(false) };
        let difference = |what| TopologyDifference {
            what,
            declared: "present".to_owned(),
            found: "missing".to_owned(),
            advice: "declare it".to_owned(),
        };
        Ok(missing.into_iter().map(difference).collect())
    }

    async fn publish(&self, mut parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        if self.server.is(Fault::ReversesBatches) {
            parcels.reverse();
        }
        let verdicts = parcels.iter().map(|parcel| self.server.publish(parcel)).collect();
        self.server.changed.notify_waiters();
        Ok(verdicts)
    }

    async fn open(&self, reading: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        let ReceiveOptions { queue, exclusive, prefetch } = reading;
        let mut state = self.server.state();
        state.readers += 1;
        let reader = state.readers;
        let stored = state.queues.get_mut(&queue).ok_or_else(|| BrokerError::Missing(format!("queue {queue}")))?;
        if exclusive && !self.server.is(Fault::AllowsSecondReader) {
            if stored.reader.is_some() {
                return Err(BrokerError::Taken(queue));
            }
            stored.reader = Some(reader);
        }
        drop(state);
        let (server, closed) = (self.server.clone(), self.closed.clone());
        Ok(Box::new(MemoryReceiver { server, closed, queue, prefetch, reader }))
    }

    async fn backlog(&self, queue: &str) -> Result<Backlog, BrokerError> {
        let state = self.server.state();
        let stored = state.queues.get(queue);
        let waiting = stored.map_or(0, |stored| stored.messages.len());
        let oldest =
            stored.and_then(|stored| stored.messages.front()?.arrival.header(wire::PUBLISHED_AT)?.parse().ok());
        Ok(Backlog {
            waiting: Some(if self.server.is(Fault::CountsNothingWaiting) { 0 } else { waiting as u64 }),
            oldest_at: oldest.filter(|_| !self.server.is(Fault::ReportsNoAge)),
        })
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        Ok(vec!["Messages in memory are lost with a restart. Use a real broker.".to_owned()])
    }

    async fn close(&self) {
        *self.closed.lock() = true;
        self.server.changed.notify_waiters();
    }
}

struct MemoryReceiver {
    server: Arc<Server>,
    closed: Arc<Mutex<bool>>,
    queue: String,
    prefetch: usize,
    reader: u64,
}

impl MemoryReceiver {
    fn take_next(&self, limit: usize) -> Result<Vec<Arrival>, BrokerError> {
        if *self.closed.lock() {
            return Err(BrokerError::Unavailable("the broker was closed".to_owned()));
        }
        let mut state = self.server.state();
        let messages = &mut state.queues.get_mut(&self.queue).expect("an open queue exists").messages;
        let unaccepted = messages.iter().filter(|message| message.held_by == Some(self.reader)).count();
        let free =
            if self.server.is(Fault::IgnoresPrefetch) { limit } else { self.prefetch.saturating_sub(unaccepted) };
        let next = messages.iter_mut().filter(|message| message.held_by.is_none()).take(limit.min(free));
        Ok(next
            .map(|message| {
                message.held_by = Some(self.reader);
                message.arrival.clone()
            })
            .collect())
    }
}

#[async_trait]
impl Receiver for MemoryReceiver {
    async fn receive(&mut self, limit: usize, timeout: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let until = Instant::now() + timeout;
        loop {
            let mut changed = std::pin::pin!(self.server.changed.notified());
            changed.as_mut().enable();
            let batch = self.take_next(limit)?;
            if !batch.is_empty() || timeout_at(until, changed).await.is_err() {
                return Ok(batch);
            }
        }
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        if !self.server.is(Fault::RedeliversAccepted) {
            let mut state = self.server.state();
            let stored = state.queues.get_mut(&self.queue).expect("an open queue exists");
            stored.messages.retain(|message| message.held_by != Some(self.reader));
        }
        Ok(())
    }

    async fn return_unaccepted(&mut self) -> Result<(), BrokerError> {
        self.server.return_unaccepted(&self.queue, self.reader, false);
        Ok(())
    }
}

impl Drop for MemoryReceiver {
    fn drop(&mut self) {
        self.server.return_unaccepted(&self.queue, self.reader, self.server.is(Fault::LosesUnaccepted));
        let mut state = self.server.state();
        let stored = state.queues.get_mut(&self.queue).expect("an open queue exists");
        if stored.reader == Some(self.reader) {
            stored.reader = None;
        }
    }
}

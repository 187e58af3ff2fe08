//! A broker in memory, with every promise kept or one of them broken.

use async_trait::async_trait;
use onceward_topology::{Binding, DeadLetter, ExchangeKind, Topology, pattern};
use onceward_transport::{
    Arrival, Broker, BrokerConfig, BrokerError, Capabilities, Difference, Parcel, Reading, Receiver, Verdict,
};
use onceward_transport_conformance::wire::Lab;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

const MAX_BODY_BYTES: usize = 1 << 20;

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    CheckSeesNothing,
    CountsNothingWaiting,
    AcceptsWhatNobodyTakes,
    AcceptsTooLarge,
    AcceptsForMissingExchanges,
    TakesStarForHash,
    OneCopyPerBinding,
    IgnoresPrefetch,
    NeverForgets,
    LosesWhatIsDropped,
    ReturnsToTheEnd,
    CountsNoDeliveries,
    LimitsNoDeliveries,
    ThrowsDeadLettersAway,
    ReversesBatches,
    LetsOthersIn,
    ReadsBodiesAsText,
    DropsEmptyHeaders,
}

pub struct MemoryLab {
    server: Arc<Server>,
}

impl MemoryLab {
    pub fn good() -> Self {
        Self { server: Arc::new(Server { fault: None, shelves: Mutex::default(), changed: Notify::new() }) }
    }

    pub fn with(fault: Fault) -> Self {
        Self { server: Arc::new(Server { fault: Some(fault), shelves: Mutex::default(), changed: Notify::new() }) }
    }
}

impl Lab for MemoryLab {
    fn url(&self) -> String {
        "memory://here".to_owned()
    }

    fn broker(&self, _config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
        Arc::new(MemoryBroker { server: self.server.clone(), topology, closed: Arc::default() })
    }

    fn can_be_proxied(&self) -> bool {
        false
    }

    fn patience(&self) -> Duration {
        if self.server.fault.is_some() { Duration::from_secs(3) } else { onceward_testkit::PATIENCE }
    }
}

struct Server {
    fault: Option<Fault>,
    shelves: Mutex<Shelves>,
    changed: Notify,
}

#[derive(Default)]
struct Shelves {
    exchanges: BTreeMap<String, ExchangeKind>,
    queues: BTreeMap<String, Shelf>,
    bindings: Vec<Binding>,
    readers: u64,
}

#[derive(Default)]
struct Shelf {
    kept: VecDeque<Kept>,
    read_by: Option<u64>,
    limit: Option<u16>,
    dead_letter: Option<DeadLetter>,
}

/// A message keeps its place while a reader has it in hand.
struct Kept {
    arrival: Arrival,
    routing_key: String,
    held_by: Option<u64>,
}

impl Server {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().expect("no panic while it is held")
    }

    /// How many queues took it; `None` without such an exchange.
    fn route(&self, shelves: &mut Shelves, exchange: &str, key: &str, arrival: &Arrival) -> Option<usize> {
        let kind = *shelves.exchanges.get(exchange)?;
        let bound = shelves.bindings.iter().filter(|binding| binding.exchange == exchange);
        let matching = bound.filter(|binding| {
            let pattern = &binding.pattern;
            let pattern = if self.is(Fault::TakesStarForHash) { pattern.replace('*', "#") } else { pattern.clone() };
            pattern::matches(kind, &pattern, key)
        });
        let mut queues: Vec<String> = matching.map(|binding| binding.queue.clone()).collect();
        queues.sort();
        if !self.is(Fault::OneCopyPerBinding) {
            queues.dedup();
        }
        for queue in &queues {
            let kept = Kept { arrival: arrival.clone(), routing_key: key.to_owned(), held_by: None };
            shelves.queues.get_mut(queue)?.kept.push_back(kept);
        }
        Some(queues.len())
    }

    fn publish(&self, parcel: &Parcel) -> Verdict {
        if parcel.body.len() > MAX_BODY_BYTES && !self.is(Fault::AcceptsTooLarge) {
            return Verdict::Refused("too large".to_owned());
        }
        let headers = parcel.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut arrival = Arrival { headers, body: parcel.body.clone(), redeliveries: 0 };
        if self.is(Fault::DropsEmptyHeaders) {
            arrival.headers.retain(|(_, value)| !value.is_empty());
        }
        if self.is(Fault::ReadsBodiesAsText) {
            arrival.body = String::from_utf8_lossy(&parcel.body).into_owned().into();
        }
        match self.route(&mut self.shelves(), &parcel.topic.exchange, &parcel.topic.routing_key, &arrival) {
            None if !self.is(Fault::AcceptsForMissingExchanges) => Verdict::Refused("no such exchange".to_owned()),
            Some(0) if parcel.expected && !self.is(Fault::AcceptsWhatNobodyTakes) => {
                Verdict::Refused("no queue takes it".to_owned())
            }
            _ => Verdict::Accepted,
        }
    }

    /// Takes back what a reader has in hand; what came back too often is a dead letter.
    fn take_back(&self, queue: &str, reader: u64, forget: bool) {
        let mut shelves = self.shelves();
        let shelf = shelves.queues.get_mut(queue).expect("a queue that is read exists");
        let (limit, dead_letter) = (shelf.limit, shelf.dead_letter.clone());
        let mut dead = Vec::new();
        let mut returned = VecDeque::new();
        let mut stay = VecDeque::new();
        for mut kept in shelf.kept.drain(..) {
            if kept.held_by != Some(reader) {
                stay.push_back(kept);
                continue;
            }
            kept.held_by = None;
            kept.arrival.redeliveries += u32::from(!self.is(Fault::CountsNoDeliveries));
            let too_often = limit.is_some_and(|limit| kept.arrival.redeliveries >= u32::from(limit));
            if forget {
                continue;
            } else if too_often && !self.is(Fault::LimitsNoDeliveries) {
                dead.push(kept);
            } else if self.is(Fault::ReturnsToTheEnd) {
                returned.push_back(kept);
            } else {
                stay.push_back(kept);
            }
        }
        stay.extend(returned);
        shelf.kept = stay;
        if let Some(dead_letter) = dead_letter.filter(|_| !self.is(Fault::ThrowsDeadLettersAway)) {
            for kept in dead {
                let key = dead_letter.routing_key.clone().unwrap_or(kept.routing_key);
                self.route(&mut shelves, &dead_letter.exchange, &key, &kept.arrival);
            }
        }
        drop(shelves);
        self.changed.notify_waiters();
    }
}

struct MemoryBroker {
    server: Arc<Server>,
    topology: Topology,
    closed: Arc<Mutex<bool>>,
}

impl MemoryBroker {
    /// What is missing on the server, made if wanted.
    fn missing(&self, make: bool) -> Vec<String> {
        let mut shelves = self.server.shelves();
        let mut missing = Vec::new();
        for exchange in &self.topology.exchanges {
            if !shelves.exchanges.contains_key(&exchange.name) {
                missing.push(format!("exchange {}", exchange.name));
                make.then(|| shelves.exchanges.insert(exchange.name.clone(), exchange.kind));
            }
        }
        for queue in &self.topology.queues {
            if !shelves.queues.contains_key(&queue.name) {
                missing.push(format!("queue {}", queue.name));
                let (limit, dead_letter) = (queue.delivery_limit, queue.dead_letter.clone());
                let shelf = Shelf { limit, dead_letter, ..Shelf::default() };
                make.then(|| shelves.queues.insert(queue.name.clone(), shelf));
            }
        }
        for binding in &self.topology.bindings {
            if !shelves.bindings.contains(binding) {
                missing.push(format!("binding {} of {}", binding.pattern, binding.queue));
                make.then(|| shelves.bindings.push(binding.clone()));
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
            max_body_bytes: MAX_BODY_BYTES,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        Ok(self.missing(true))
    }

    async fn check(&self) -> Result<Vec<Difference>, BrokerError> {
        let missing = if self.server.is(Fault::CheckSeesNothing) { Vec::new() } else { self.missing(false) };
        let difference = |what| Difference {
            what,
            declared: "there".to_owned(),
            found: "nothing".to_owned(),
            advice: "declare it".to_owned(),
        };
        Ok(missing.into_iter().map(difference).collect())
    }

    async fn publish(&self, mut parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        if self.server.is(Fault::ReversesBatches) {
            parcels.reverse();
        }
        let verdicts = parcels.iter().map(|parcel| self.server.publish(parcel)).collect();
        self.server.changed.notify_waiters();
        Ok(verdicts)
    }

    async fn open(&self, reading: Reading) -> Result<Box<dyn Receiver>, BrokerError> {
        let Reading { queue, exclusive, prefetch } = reading;
        let mut shelves = self.server.shelves();
        shelves.readers += 1;
        let reader = shelves.readers;
        let shelf = shelves.queues.get_mut(&queue).ok_or_else(|| BrokerError::Missing(format!("queue {queue}")))?;
        if exclusive && !self.server.is(Fault::LetsOthersIn) {
            if shelf.read_by.is_some() {
                return Err(BrokerError::Taken(queue));
            }
            shelf.read_by = Some(reader);
        }
        drop(shelves);
        let (server, closed) = (self.server.clone(), self.closed.clone());
        Ok(Box::new(MemoryReceiver { server, closed, queue, prefetch, reader }))
    }

    async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        let kept = self.server.shelves().queues.get(queue).map_or(0, |shelf| shelf.kept.len());
        Ok(Some(if self.server.is(Fault::CountsNothingWaiting) { 0 } else { kept as u64 }))
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        Ok(vec!["What is in memory is gone after a restart: use a real broker.".to_owned()])
    }

    async fn close(&self) {
        *self.closed.lock().expect("no panic") = true;
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
    fn hand_out(&self, limit: usize) -> Result<Vec<Arrival>, BrokerError> {
        if *self.closed.lock().expect("no panic") {
            return Err(BrokerError::Unavailable("it was closed".to_owned()));
        }
        let mut shelves = self.server.shelves();
        let kept = &mut shelves.queues.get_mut(&self.queue).expect("a queue that is read exists").kept;
        let in_hand = kept.iter().filter(|kept| kept.held_by == Some(self.reader)).count();
        let free = if self.server.is(Fault::IgnoresPrefetch) { limit } else { self.prefetch.saturating_sub(in_hand) };
        let next = kept.iter_mut().filter(|kept| kept.held_by.is_none()).take(limit.min(free));
        Ok(next
            .map(|kept| {
                kept.held_by = Some(self.reader);
                kept.arrival.clone()
            })
            .collect())
    }
}

#[async_trait]
impl Receiver for MemoryReceiver {
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let until = Instant::now() + most;
        loop {
            let mut changed = std::pin::pin!(self.server.changed.notified());
            changed.as_mut().enable();
            let handed_out = self.hand_out(limit)?;
            if !handed_out.is_empty() || timeout_at(until, changed).await.is_err() {
                return Ok(handed_out);
            }
        }
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        if !self.server.is(Fault::NeverForgets) {
            let mut shelves = self.server.shelves();
            let shelf = shelves.queues.get_mut(&self.queue).expect("a queue that is read exists");
            shelf.kept.retain(|kept| kept.held_by != Some(self.reader));
        }
        Ok(())
    }

    async fn give_back(&mut self) -> Result<(), BrokerError> {
        self.server.take_back(&self.queue, self.reader, false);
        Ok(())
    }
}

impl Drop for MemoryReceiver {
    fn drop(&mut self) {
        self.server.take_back(&self.queue, self.reader, self.server.is(Fault::LosesWhatIsDropped));
        let mut shelves = self.server.shelves();
        let shelf = shelves.queues.get_mut(&self.queue).expect("a queue that is read exists");
        if shelf.read_by == Some(self.reader) {
            shelf.read_by = None;
        }
    }
}

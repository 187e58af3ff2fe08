//! Collecting: brings home what an external bus has put into its dead-letter queues by itself.
//!
//! What is in there as a copy of a letter that the database holds is only taken off. Everything else becomes a letter, and
//! the bus forgets it after the commit.

use crate::outbox::DEAD_LETTER;
use onceward_topology::{QueueKind, Topology};
use onceward_transport::{Arrival, Broker, BrokerError, Reading, Receiver, TransportError};
use onceward_transport_postgres::{
    PostgresTransport,
    triage::{
        Operator,
        collect::{Collected, PutAway, collect},
    },
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Messages taken off in one commit.
const BATCH: usize = 200;
/// A queue is empty when nothing came for this long; a broker may need a moment to hand a queue over.
const LOOK: Duration = Duration::from_secs(3);
/// One run takes at most this many from a queue.
const MOST: usize = 100_000;

/// Why and where a message died, as brokers and our transports tell it. The first that is there counts.
const REASONS: [&str; 2] = ["x-death-reason", "x-first-death-reason"];
const QUEUES: [&str; 2] = ["x-death-queue", "x-first-death-queue"];
/// Said of a message when the bus does not say why.
const NO_REASON: &str = "put_away_by_bus";

/// What was found in a dead-letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The letters that there are now; in a rehearsal, as many as there would be.
    pub letters: Vec<i64>,
    /// Copies of letters that the database holds.
    pub copies: usize,
    /// Messages that had come home before.
    pub known: usize,
    /// There may be more.
    pub more: bool,
}

impl Report {
    /// How many messages were taken off the bus.
    pub fn taken(&self) -> usize {
        self.letters.len() + self.copies + self.known
    }

    fn add(&mut self, collected: Collected) {
        match collected {
            Collected::Letter(id) => self.letters.push(id),
            Collected::Known => self.known += 1,
        }
    }
}

/// Empties dead-letter queues.
pub struct Collector {
    bus: PostgresTransport,
    broker: Arc<dyn Broker>,
    topology: Topology,
    consumers: HashMap<String, String>,
}

impl Collector {
    /// A collector from `broker`. `consumers` tells for each queue who reads it.
    pub fn new(
        bus: PostgresTransport,
        broker: Arc<dyn Broker>,
        topology: Topology,
        consumers: HashMap<String, String>,
    ) -> Self {
        Self { bus, broker, topology, consumers }
    }

    /// The dead-letter queues there are.
    pub fn queues(&self) -> Vec<&str> {
        let stores = self.topology.queues.iter().filter(|queue| queue.kind == QueueKind::DeadLetter);
        stores.map(|queue| queue.name.as_str()).collect()
    }

    /// Takes everything off the dead-letter queue `queue`. `progress` hears of each commit.
    pub async fn collect(
        &self,
        queue: &str,
        operator: &Operator,
        mut progress: impl FnMut(&Report),
    ) -> Result<Report, TransportError> {
        let mut receiver = self.open(queue).await?;
        let mut report = Report::default();
        while report.taken() < MOST {
            let arrivals = receiver.receive(BATCH, LOOK).await?;
            if arrivals.is_empty() {
                return Ok(report);
            }
            self.take_in(queue, arrivals, operator, false, &mut report).await?;
            receiver.accept().await?;
            progress(&report);
        }
        report.more = true;
        Ok(report)
    }

    /// What [`Collector::collect`] would do with the first messages of `queue`, which stay where they are.
    pub async fn rehearse(&self, queue: &str, operator: &Operator) -> Result<Report, TransportError> {
        let mut receiver = self.open(queue).await?;
        let mut arrivals = Vec::new();
        while arrivals.len() < BATCH {
            match receiver.receive(BATCH - arrivals.len(), LOOK).await? {
                none if none.is_empty() => break,
                some => arrivals.extend(some),
            }
        }
        let mut report = Report { more: arrivals.len() == BATCH, ..Report::default() };
        self.take_in(queue, arrivals, operator, true, &mut report).await?;
        receiver.give_back().await?;
        Ok(report)
    }

    async fn open(&self, queue: &str) -> Result<Box<dyn Receiver>, BrokerError> {
        self.broker.open(Reading { queue: queue.to_owned(), exclusive: true, prefetch: BATCH }).await
    }

    async fn take_in(
        &self,
        queue: &str,
        arrivals: Vec<Arrival>,
        operator: &Operator,
        rehearse: bool,
        report: &mut Report,
    ) -> Result<(), TransportError> {
        let all = arrivals.len();
        let own: Vec<PutAway> = arrivals
            .into_iter()
            .filter(|arrival| !is_copy(arrival))
            .map(|arrival| self.put_away(queue, arrival))
            .collect();
        report.copies += all - own.len();
        for collected in collect(&self.bus, &own, operator, rehearse).await? {
            report.add(collected);
        }
        Ok(())
    }

    fn put_away(&self, found_in: &str, arrival: Arrival) -> PutAway {
        let queue = self.origin(found_in, &arrival);
        let consumer = self.consumers.get(&queue).unwrap_or(&queue).clone();
        PutAway { reason: reason(&arrival), found_in: found_in.to_owned(), queue, consumer, arrival }
    }

    /// The queue in which a message died: as the bus says, or else the only one that sends its dead letters here.
    fn origin(&self, found_in: &str, arrival: &Arrival) -> String {
        let said = first_of(arrival, &QUEUES);
        let work = || self.topology.queues.iter().filter(|queue| queue.kind == QueueKind::Work);
        // On a shared broker the name has the installation's word before it.
        let named = work().filter(|queue| said.is_some_and(|said| said.ends_with(&queue.name)));
        if let Some(queue) = named.max_by_key(|queue| queue.name.len()) {
            return queue.name.clone();
        }
        let leads_here = |exchange: &str| {
            self.topology.bindings.iter().any(|binding| binding.exchange == exchange && binding.queue == found_in)
        };
        let mut senders = work().filter(|queue| queue.dead_letter.as_ref().is_some_and(|to| leads_here(&to.exchange)));
        match (senders.next(), senders.next()) {
            (Some(only), None) => only.name.clone(),
            _ => said.unwrap_or(found_in).to_owned(),
        }
    }
}

fn is_copy(arrival: &Arrival) -> bool {
    arrival.unpack().is_ok_and(|delivery| delivery.envelope.extensions.contains_key(DEAD_LETTER))
}

fn reason(arrival: &Arrival) -> String {
    let is_word = |said: &&str| said.len() <= 64 && said.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    first_of(arrival, &REASONS).filter(is_word).unwrap_or(NO_REASON).to_owned()
}

fn first_of<'a>(arrival: &'a Arrival, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arrival.header(name)).filter(|said| !said.is_empty())
}

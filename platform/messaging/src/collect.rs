//! Collecting: moves messages that an external bus put into its dead-letter queues into the database.
//!
//! Copies of dead letters that the database already holds are only removed from the bus. Everything else becomes a
//! dead letter, and is acknowledged to the bus after the commit.

use crate::outbox::DEAD_LETTER;
use onceward_broker::{Arrival, Broker, BrokerError, ReceiveOptions, Receiver};
use onceward_message_log::{
    BusError, MessageLog,
    triage::{
        Operator,
        collect::{BusDeadLetter, CollectOutcome, collect},
    },
};
use onceward_topology::{QueueKind, Topology};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Messages collected per commit.
const BATCH: usize = 200;
/// A queue is considered empty after this long without a message; a broker may need a moment to hand a queue over.
const EMPTY_AFTER: Duration = Duration::from_secs(3);
/// The maximum number of messages that one run takes from a queue.
const MESSAGES_PER_RUN: usize = 100_000;

/// Headers in which brokers and our broker crates report why and where a message died. The first one present counts.
const REASONS: [&str; 2] = ["x-death-reason", "x-first-death-reason"];
const QUEUES: [&str; 2] = ["x-death-queue", "x-first-death-queue"];
/// The reason of a message for which the bus reports none.
const NO_REASON: &str = "put_away_by_bus";

/// The result of collecting from a dead-letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectReport {
    /// The dead letters created; in a rehearsal, as many entries as would be created.
    pub letters: Vec<i64>,
    /// The number of copies of dead letters that the database already holds.
    pub copies: usize,
    /// The number of messages that had been collected before.
    pub known: usize,
    /// Whether the queue may contain more.
    pub more: bool,
}

impl CollectReport {
    /// Returns how many messages were taken off the bus.
    pub fn taken(&self) -> usize {
        self.letters.len() + self.copies + self.known
    }

    fn add(&mut self, outcome: CollectOutcome) {
        match outcome {
            CollectOutcome::Letter(id) => self.letters.push(id),
            CollectOutcome::Known => self.known += 1,
        }
    }
}

/// Empties dead-letter queues.
pub struct DeadLetterCollector {
    log: MessageLog,
    broker: Arc<dyn Broker>,
    topology: Topology,
    consumers: HashMap<String, String>,
}

impl DeadLetterCollector {
    /// Creates a collector for `broker`. `consumers` maps each queue to the consumer that reads it.
    pub fn new(
        log: MessageLog,
        broker: Arc<dyn Broker>,
        topology: Topology,
        consumers: HashMap<String, String>,
    ) -> Self {
        Self { log, broker, topology, consumers }
    }

    /// Returns the dead-letter queues that no consumer reads.
    pub fn unread_queues(&self) -> Vec<&str> {
        self.queues().into_iter().filter(|queue| !self.consumers.contains_key(*queue)).collect()
    }

    /// Returns all dead-letter queues.
    pub fn queues(&self) -> Vec<&str> {
        let stores = self.topology.queues.iter().filter(|queue| queue.kind == QueueKind::DeadLetter);
        stores.map(|queue| queue.name.as_str()).collect()
    }

    /// Takes the messages off the dead-letter queue `queue`, up to the limit of one run. Calls `progress` after each
    /// commit.
    pub async fn collect(
        &self,
        queue: &str,
        operator: &Operator,
        mut progress: impl FnMut(&CollectReport),
    ) -> Result<CollectReport, BusError> {
        let mut receiver = self.open(queue, BATCH).await?;
        let mut report = CollectReport::default();
        while report.taken() < MESSAGES_PER_RUN {
            let arrivals = receiver.receive(BATCH, EMPTY_AFTER).await?;
            if arrivals.is_empty() {
                return Ok(report);
            }
            self.store(queue, arrivals, operator, false, &mut report).await?;
            receiver.accept().await?;
            progress(&report);
        }
        report.more = true;
        Ok(report)
    }

    /// If the dead-letter queue `queue` holds more than `most` messages, takes the oldest off until it holds a tenth
    /// less than that, or until the limit of one run is reached. Does nothing while another process reads the queue.
    pub async fn collect_beyond(&self, queue: &str, most: u64, operator: &Operator) -> Result<CollectReport, BusError> {
        let mut report = CollectReport::default();
        let waiting = self.broker.waiting(queue).await?.unwrap_or(0);
        if waiting <= most {
            return Ok(report);
        }
        let mut beyond = usize::try_from(waiting - (most - most / 10)).unwrap_or(usize::MAX).min(MESSAGES_PER_RUN);
        report.more = beyond == MESSAGES_PER_RUN;
        // A message that a broker prefetches and gets back counts as a delivery, so it must not prefetch more than is
        // taken.
        let mut receiver = match self.open(queue, BATCH.min(beyond)).await {
            Err(BrokerError::Taken(_)) => return Ok(report),
            receiver => receiver?,
        };
        while beyond > 0 {
            let arrivals = receiver.receive(BATCH.min(beyond), EMPTY_AFTER).await?;
            if arrivals.is_empty() {
                break;
            }
            beyond -= arrivals.len().min(beyond);
            self.store(queue, arrivals, operator, false, &mut report).await?;
            receiver.accept().await?;
        }
        Ok(report)
    }

    /// Reports what [`DeadLetterCollector::collect`] would do with the first messages of `queue`, which stay in the queue.
    pub async fn rehearse(&self, queue: &str, operator: &Operator) -> Result<CollectReport, BusError> {
        let mut receiver = self.open(queue, BATCH).await?;
        let mut arrivals = Vec::new();
        while arrivals.len() < BATCH {
            match receiver.receive(BATCH - arrivals.len(), EMPTY_AFTER).await? {
                none if none.is_empty() => break,
                some => arrivals.extend(some),
            }
        }
        let mut report = CollectReport { more: arrivals.len() == BATCH, ..CollectReport::default() };
        self.store(queue, arrivals, operator, true, &mut report).await?;
        receiver.return_unaccepted().await?;
        Ok(report)
    }

    async fn open(&self, queue: &str, prefetch: usize) -> Result<Box<dyn Receiver>, BrokerError> {
        self.broker.open(ReceiveOptions { queue: queue.to_owned(), exclusive: true, prefetch }).await
    }

    async fn store(
        &self,
        queue: &str,
        arrivals: Vec<Arrival>,
        operator: &Operator,
        rehearse: bool,
        report: &mut CollectReport,
    ) -> Result<(), BusError> {
        let all = arrivals.len();
        let letters: Vec<BusDeadLetter> = arrivals
            .into_iter()
            .filter(|arrival| !is_copy(arrival))
            .map(|arrival| self.dead_letter(queue, arrival))
            .collect();
        report.copies += all - letters.len();
        for outcome in collect(&self.log, &letters, operator, rehearse).await? {
            report.add(outcome);
        }
        Ok(())
    }

    fn dead_letter(&self, found_in: &str, arrival: Arrival) -> BusDeadLetter {
        let queue = self.origin(found_in, &arrival);
        let consumer = self.consumers.get(&queue).unwrap_or(&queue).clone();
        BusDeadLetter { reason: reason(&arrival), found_in: found_in.to_owned(), queue, consumer, arrival }
    }

    /// Returns the queue in which a message died: as reported by the bus, otherwise the only queue that dead-letters
    /// to this one.
    fn origin(&self, found_in: &str, arrival: &Arrival) -> String {
        let reported = first_header(arrival, &QUEUES);
        let work = || self.topology.queues.iter().filter(|queue| queue.kind == QueueKind::Work);
        // On a shared broker the name has the installation's prefix.
        let named = work().filter(|queue| reported.is_some_and(|name| name.ends_with(&queue.name)));
        if let Some(queue) = named.max_by_key(|queue| queue.name.len()) {
            return queue.name.clone();
        }
        let leads_here = |exchange: &str| {
            self.topology.bindings.iter().any(|binding| binding.exchange == exchange && binding.queue == found_in)
        };
        let mut senders = work().filter(|queue| queue.dead_letter.as_ref().is_some_and(|to| leads_here(&to.exchange)));
        match (senders.next(), senders.next()) {
            (Some(only), None) => only.name.clone(),
            _ => reported.unwrap_or(found_in).to_owned(),
        }
    }
}

fn is_copy(arrival: &Arrival) -> bool {
    arrival.unpack().is_ok_and(|delivery| delivery.envelope.extensions.contains_key(DEAD_LETTER))
}

fn reason(arrival: &Arrival) -> String {
    let is_word = |word: &&str| word.len() <= 64 && word.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    first_header(arrival, &REASONS).filter(is_word).unwrap_or(NO_REASON).to_owned()
}

fn first_header<'a>(arrival: &'a Arrival, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| arrival.header(name)).filter(|value| !value.is_empty())
}

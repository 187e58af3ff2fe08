//! Consuming a queue.
//!
//! ```text
//! join ── assigned ── start (where the group left off) ── messages … ── revoked: nothing is in flight any more
//!                                                     receive → accept (commit) or give_back (seek)
//! ```
//!
//! A partition has one reader. A reader that loses it, or fails otherwise, leaves the group for good, and the next reader
//! starts with the first uncommitted record.

use crate::{
    KafkaBroker,
    bindings::Bindings,
    connection::{Deadline, blocking, unavailable},
    group::{GroupConsumer, GroupMembership, Revocation, consumer_settings, fatal_error},
    in_flight::InFlight,
    peek::written_ms,
    queue_starts,
    start::StartResolver,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use onceward_broker::{Arrival, BrokerError, Position, PositionStore, ReceiveOptions, Receiver};
use rdkafka::{
    Message,
    consumer::{CommitMode, Consumer},
    error::KafkaResult,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

/// The longest wait for a notification.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// How long `open` waits for the first assignment of partitions before it returns.
const ASSIGNMENT_WAIT: Duration = Duration::from_secs(3);
/// Polls per round, if few records are for this queue.
const POLLS_MAX: usize = 2_000;
/// The shortest interval between two writes of positions of skipped messages.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// Consecutive polls without a message: each may have handled an event, with messages behind it.
const EMPTY_POLLS_MAX: u32 = 32;

/// A receiver of one queue.
pub(crate) struct KafkaReceiver {
    queue: String,
    prefetch: usize,
    heartbeat: Duration,
    bindings: Bindings,
    /// The membership, or why the receiver failed.
    membership: Result<GroupMembership, BrokerError>,
    in_flight: InFlight,
    /// When the server last responded.
    last_response: Instant,
    probe: Option<JoinHandle<KafkaResult<()>>>,
    starting: Option<JoinHandle<Result<(), BrokerError>>>,
    start: StartResolver,
    positions: Option<Arc<dyn PositionStore>>,
    /// When positions were last saved without messages.
    saved_at: Instant,
}

impl KafkaReceiver {
    pub(crate) async fn open(broker: &KafkaBroker, wanted: ReceiveOptions) -> Result<Self, BrokerError> {
        let ReceiveOptions { queue, prefetch, .. } = wanted;
        if broker.topology.find_queue(&queue).is_none() {
            return Err(BrokerError::Missing(format!("queue \"{queue}\"")));
        }
        let bindings = Bindings::of(&broker.topology, &queue);
        let (settings, open) = (consumer_settings(&broker.config, &queue)?, broker.open_clients.clone());
        let (heartbeat, limit) = (broker.config.heartbeat, broker.request_timeout());
        let positions = broker.positions.clone();
        let (peek_settings, open_clients) = (settings.clone(), open.clone());
        let join = move || {
            let membership = GroupMembership::join(&settings, &queue, &bindings, &open, Deadline::after(limit))?;
            Ok((queue, bindings, membership))
        };
        let (queue, bindings, membership) = blocking("opening a queue", limit + heartbeat, join).await?;
        let start = StartResolver {
            queue: queue.clone(),
            starts: membership.starts.clone(),
            positions: positions.clone(),
            settings: peek_settings,
            open_clients,
        };
        let mut receiver = Self {
            queue,
            prefetch,
            heartbeat,
            bindings,
            membership: Ok(membership),
            in_flight: InFlight::default(),
            last_response: Instant::now(),
            probe: None,
            starting: None,
            start,
            positions,
            saved_at: Instant::now(),
        };
        receiver.wait_for_assignment().await?;
        Ok(receiver)
    }

    /// Waits a moment for the first assignment. Other readers may be slow to release their partitions.
    async fn wait_for_assignment(&mut self) -> Result<(), BrokerError> {
        let deadline = Instant::now() + ASSIGNMENT_WAIT;
        while self.bindings.exchanges().next().is_some() && Instant::now() < deadline {
            // No message can arrive before partitions are assigned.
            self.poll_ready(1)?;
            if self.consumer()?.context().is_assigned() {
                return self.start_reading(deadline).await.map(drop);
            }
            self.wait_for_events(deadline).await;
        }
        Ok(())
    }

    /// Waits for an event, until `by` or a maximum time at most.
    async fn wait_for_events(&self, by: Instant) {
        if let Ok(membership) = &self.membership {
            let _ = timeout_at(by.min(Instant::now() + WAIT_MAX), membership.nonempty.notified()).await;
        }
    }

    fn consumer(&self) -> Result<GroupConsumer, BrokerError> {
        self.membership.as_ref().map(|membership| membership.consumer.clone()).map_err(Clone::clone)
    }

    /// Leaves the group for good, so that the next reader receives what is in flight. Returns the error.
    fn fail(&mut self, error: BrokerError) -> BrokerError {
        (self.membership, self.in_flight) = (Err(error.clone()), InFlight::default());
        error
    }

    /// Starts to read the assigned partitions. Returns `false` if that is not done by then. Nothing is polled meanwhile, so
    /// partitions cannot be revoked before reading has started.
    async fn start_reading(&mut self, by: Instant) -> Result<bool, BrokerError> {
        let membership = self.membership.as_ref().map_err(Clone::clone)?;
        if self.starting.is_none() {
            let Some(partitions) = membership.consumer.context().assigned() else {
                return Ok(true);
            };
            let (consumer, start, deadline) =
                (membership.consumer.clone(), self.start.clone(), Deadline::after(self.heartbeat));
            let assign = move || start.assign(&consumer, partitions, deadline);
            self.starting = Some(tokio::task::spawn_blocking(assign));
        }
        let Some(starting) = &mut self.starting else {
            return Ok(true);
        };
        let Ok(started) = timeout_at(by, starting).await else {
            return Ok(false);
        };
        membership.consumer.context().clear_assigned();
        self.starting = None;
        match started {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) => Err(self.fail(error)),
            Err(error) => Err(self.fail(unavailable("determining the start offsets", error))),
        }
    }

    /// Returns messages that are ready, and whether these are all. Awaits nothing, so cancellation loses no message.
    fn poll_ready(&mut self, room: usize) -> Result<(Vec<Arrival>, bool), BrokerError> {
        let consumer = self.consumer()?;
        let lost = consumer.assignment_lost();
        let (mut arrivals, mut empty) = (Vec::new(), 0);
        for _ in 0..POLLS_MAX {
            if arrivals.len() == room || empty == EMPTY_POLLS_MAX || consumer.context().is_assigned() {
                return Ok((arrivals, true));
            }
            match consumer.poll(Duration::ZERO) {
                // Another reader has the partition by now.
                Some(Ok(_)) if lost => {}
                Some(Ok(record)) => {
                    (self.last_response, empty) = (Instant::now(), 0);
                    let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
                    match self.bindings.arrival(&record) {
                        Some(arrival) => {
                            self.in_flight.add(topic, partition, offset, written_ms(&record));
                            arrivals.push(arrival);
                        }
                        None => self.in_flight.skip(topic, partition, offset, written_ms(&record)),
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = fatal_error(&error, &self.queue) {
                        return Err(self.fail(error));
                    }
                }
                None => empty += 1,
            }
            match consumer.context().revoked() {
                None => {}
                Some(Revocation::Rebalance) => {
                    self.in_flight = InFlight::default();
                    arrivals.clear();
                }
                Some(Revocation::Lost) => {
                    return Err(self.fail(unavailable("reading", "the partitions were assigned to other readers")));
                }
            }
        }
        Ok((arrivals, false))
    }

    /// Probes a server that has been silent for a while. Fails if it does not respond in time.
    fn check_alive(&mut self) -> Result<(), BrokerError> {
        let limit = self.heartbeat / 2;
        match self.probe.take() {
            None if self.last_response.elapsed() >= limit => {
                let consumer = self.consumer()?;
                let probe = move || consumer.fetch_metadata(Some(queue_starts::TOPIC), limit).map(drop);
                self.probe = Some(tokio::task::spawn_blocking(probe));
            }
            None => {}
            Some(mut probe) => match (&mut probe).now_or_never() {
                None => self.probe = Some(probe),
                Some(Ok(Ok(()))) => self.last_response = Instant::now(),
                Some(Ok(Err(error))) => {
                    let error = unavailable("no answer", self.consumer()?.context().describe(error));
                    return Err(self.fail(error));
                }
                Some(Err(error)) => return Err(self.fail(unavailable("no answer", error))),
            },
        }
        Ok(())
    }

    /// Commits skipped messages, which no caller accepts.
    async fn commit_skipped(&mut self) -> Result<(), BrokerError> {
        if let (0, Ok(offsets), Ok(consumer)) =
            (self.in_flight.unaccepted(), self.in_flight.uncommitted(), self.consumer())
            && offsets.count() > 0
            && consumer.commit(&offsets, CommitMode::Async).is_ok()
        {
            self.in_flight.mark_committed();
        }
        if self.in_flight.unaccepted() == 0 && self.saved_at.elapsed() >= SAVE_INTERVAL {
            self.save_positions().await?;
        }
        Ok(())
    }

    /// Saves the positions that the caller did not take.
    async fn save_positions(&mut self) -> Result<(), BrokerError> {
        self.saved_at = Instant::now();
        let positions = self.in_flight.take_positions(&self.queue);
        match &self.positions {
            Some(store) if !positions.is_empty() => {
                let saved = tokio::time::timeout(self.heartbeat, store.save(&positions, false)).await;
                let late = || Err(unavailable("saving positions", "the database did not respond in time"));
                saved.unwrap_or_else(|_| late()).map_err(|error| self.fail(error))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Receiver for KafkaReceiver {
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let deadline = Instant::now() + most;
        let room = limit.min(self.prefetch.saturating_sub(self.in_flight.unaccepted()));
        if room == 0 {
            sleep_until(deadline).await;
            return Ok(Vec::new());
        }
        while self.start_reading(deadline).await? {
            let (arrivals, all) = self.poll_ready(room)?;
            if !arrivals.is_empty() {
                return Ok(arrivals);
            }
            self.check_alive()?;
            if Instant::now() >= deadline {
                self.commit_skipped().await?;
                break;
            }
            if all {
                self.wait_for_events(deadline).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        Ok(Vec::new())
    }

    fn take_positions(&mut self) -> Vec<Position> {
        if self.positions.is_some() { self.in_flight.take_positions(&self.queue) } else { Vec::new() }
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        let consumer = self.consumer()?;
        self.save_positions().await?;
        let offsets = self.in_flight.uncommitted().map_err(|error| unavailable("accepting", error))?;
        if offsets.count() > 0 {
            let commit = move || {
                let committed = consumer.commit(&offsets, CommitMode::Sync);
                committed.map_err(|error| unavailable("accepting", error))
            };
            blocking("accepting", self.heartbeat, commit).await.map_err(|error| self.fail(error))?;
        }
        self.in_flight.mark_committed();
        Ok(())
    }

    async fn return_unaccepted(&mut self) -> Result<(), BrokerError> {
        let offsets = self.in_flight.first_unaccepted().map_err(|error| unavailable("giving back", error))?;
        if offsets.count() > 0 {
            // If the caller cancels this, the receiver leaves the group, and everything is delivered again.
            let cancelled = Err(unavailable("giving back", "it was cancelled"));
            let membership = std::mem::replace(&mut self.membership, cancelled)?;
            let (consumer, limit) = (membership.consumer.clone(), self.heartbeat);
            let seek = move || {
                let seeked = consumer.seek_partitions(offsets, limit);
                let all = seeked
                    .and_then(|partitions| partitions.elements().iter().try_for_each(|partition| partition.error()));
                all.map_err(|error| unavailable("giving back", error))
            };
            blocking("giving back", limit, seek).await.map_err(|error| self.fail(error))?;
            self.membership = Ok(membership);
        }
        self.in_flight.rewind();
        Ok(())
    }
}

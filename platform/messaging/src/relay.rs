//! The relay: publishes committed messages to an external bus and records that it did.
//!
//! It takes turns in the lanes of the outbox as a consumer does in its queue: the task that holds a lane publishes its
//! messages in order, waits for the broker's confirmation and records the lane's new position, so any number of relays
//! preserve the order of keys. If a relay is killed before that, the next one publishes the same messages again;
//! readers deduplicate them by key.

use crate::{
    backoff::Backoff,
    consumer::run::IDLE_WAIT,
    measure::{self, PublishCounter},
    relay_load::{ActiveTasks, BatchSizer},
    store,
};
use jiff::Timestamp;
use onceward_broker::{Broker, BrokerError, DeadReason, PublishOutcome, Settlement};
use onceward_db::{Db, DbError};
use onceward_message_log::{
    BusError, MessageLog,
    outbox_reader::{OutboxMessage, OutboxReader, OutboxTurn, ParcelBuilder},
};
use onceward_resilience::{Breaker, BreakerChange, BreakerSettings, Outcome, Ticket, TicketKind};
use onceward_topology::{Jitter, RetryPolicy, Topology};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use uuid::Uuid;

/// The name under which a relay's tasks are supervised.
const TASK: &str = "relay";
/// How often a relay reports the state of the bus.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// The first pause after the bus was lost, and the longest between two probes.
const BREAKER: BreakerSettings = BreakerSettings {
    failures: 1,
    failure_percent: 0,
    window_ms: 60_000,
    slow_after_ms: None,
    slow_percent: 100,
    pause_ms: 200,
    max_pause_ms: 5_000,
    jitter_percent: 10,
    probe_limit_ms: 5_000,
    // The bus slows publishers down by itself.
    slow_start_until: 0,
};

/// A turn of less than this fraction of a batch costs more than it is worth.
const SMALL_TURN_DIVISOR: usize = 32;
/// The pause after such a turn, so that messages accumulate.
const SMALL_TURN_PAUSE: Duration = Duration::from_millis(20);

/// Settings of a relay.
#[derive(Clone, Copy, Debug)]
pub struct RelayConfig {
    /// The maximum number of messages published together; fewer if they are large.
    pub batch: usize,
    /// The number of batches in flight at the same time.
    pub tasks: usize,
    /// How often a refused message is offered to the bus before it becomes a dead letter.
    pub attempts: u32,
    /// The time limit for publishing a batch; the broker should have given up long before.
    pub publish_timeout: Duration,
}

impl RelayConfig {
    /// The policy for refused messages: from one second to a minute, doubling.
    fn refusal_policy(&self) -> RetryPolicy {
        RetryPolicy::exponential(self.attempts).jitter(Jitter::Equal)
    }
}

/// Publishes messages from the outbox to a broker.
pub struct Relay {
    log: MessageLog,
    broker: Arc<dyn Broker>,
    topology: Topology,
    db: Db,
    config: RelayConfig,
    name: String,
    breaker: Mutex<Breaker>,
    started: Instant,
    active_tasks: ActiveTasks,
    last_error: Mutex<Option<String>>,
    counters: Vec<PublishCounter>,
}

impl Relay {
    /// Creates a relay from the outbox of `log` to `broker`.
    pub fn new(log: MessageLog, broker: Arc<dyn Broker>, topology: Topology, db: Db, config: RelayConfig) -> Self {
        let name = format!("{}-{}", std::process::id(), Uuid::now_v7().simple());
        let (breaker, active_tasks) = (Mutex::new(Breaker::new(BREAKER)), ActiveTasks::new(config.tasks));
        let (started, last_error, counters) = (Instant::now(), Mutex::default(), Vec::new());
        Self { log, broker, topology, db, config, name, breaker, started, active_tasks, last_error, counters }
    }

    /// Also updates these counters.
    pub fn counting(mut self, counters: Vec<PublishCounter>) -> Self {
        self.counters = counters;
        self
    }

    /// Runs until `stop`, restarting tasks that panic; then waits for the batches in flight.
    pub async fn run(self, stop: CancellationToken) {
        let relay = Arc::new(self);
        let work = || async {
            relay.clone().work(stop.clone()).await;
            Ok(())
        };
        relay.log.supervisor().keep_running(TASK, &stop, work).await;
    }

    async fn work(self: Arc<Self>, stop: CancellationToken) {
        let relay = self;
        let ((), Some(outbox)) = tokio::join!(relay.declare(&stop), relay.open(&stop)) else {
            return;
        };
        let mut tasks = JoinSet::new();
        for task in 0..relay.config.tasks {
            let (relay, outbox, stop) = (relay.clone(), outbox.clone(), stop.clone());
            tasks.spawn(async move {
                let work = || async {
                    relay.clone().relay_repeatedly(task, outbox.clone(), stop.clone()).await;
                    Ok(())
                };
                relay.log.supervisor().keep_running(TASK, &stop, work).await;
            });
        }
        tasks.spawn(async move {
            let work = || async {
                relay.clone().report(stop.clone()).await;
                Ok(())
            };
            relay.log.supervisor().keep_running(TASK, &stop, work).await;
        });
        while tasks.join_next().await.is_some() {}
    }

    /// Creates what the broker lacks. Differences from the topology are left unchanged, for a person to decide.
    async fn declare(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let Some(ticket) = self.await_bus(stop).await else {
                continue;
            };
            match self.broker.declare().await {
                Ok(created) => {
                    return created.iter().for_each(|what| tracing::info!(bus = self.broker.name(), "created {what}"));
                }
                Err(error @ (BrokerError::Misconfigured(_) | BrokerError::Missing(_))) => {
                    return tracing::error!(bus = self.broker.name(), %error, "broker topology differs from the declaration; run `onceward topology check`");
                }
                Err(error) => self.record_loss(ticket, &error).await,
            }
        }
    }

    async fn open(&self, stop: &CancellationToken) -> Option<Arc<OutboxReader>> {
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            match OutboxReader::open(&self.log, self.config.tasks).await {
                Ok(outbox) => return Some(outbox.into()),
                Err(error) => backoff.pause_after("relay", &error, stop).await,
            }
        }
        None
    }

    async fn relay_repeatedly(self: Arc<Self>, task: usize, outbox: Arc<OutboxReader>, stop: CancellationToken) {
        let mut backoff = Backoff::default();
        let mut parcels = ParcelBuilder::new(self.topology.clone());
        let mut sizer = BatchSizer::new(self.config.batch);
        while !stop.is_cancelled() {
            let Some(ticket) = self.await_bus(&stop).await else {
                continue;
            };
            match outbox.take(sizer.next_size(), self.active_tasks.count(), &mut parcels).await {
                // `wait` consumes a wake-up, so only a task that will take the next turn may call it.
                Ok(None) if self.active_tasks.includes(task) => {
                    tokio::select! { () = outbox.wait(IDLE_WAIT) => {}, () = stop.cancelled() => {} }
                }
                Ok(None) => {
                    tokio::select! { () = self.active_tasks.wait_until_needed() => {}, () = stop.cancelled() => {} }
                }
                Ok(Some(turn)) => {
                    let is_small = turn.messages().len() < self.config.batch / SMALL_TURN_DIVISOR;
                    self.active_tasks.adjust(is_small);
                    let span = tracing::info_span!(parent: None, "relay", bus = self.broker.name(), messages = turn.messages().len());
                    crate::spans::link_to(&span, turn.messages().iter().filter_map(OutboxMessage::trace));
                    match self.relay(turn, ticket, &mut sizer).instrument(span).await {
                        Ok(()) => backoff.reset(),
                        Err(error) => backoff.pause_after("relay", &error, &stop).await,
                    }
                    let rest = async {
                        match (self.active_tasks.includes(task), is_small) {
                            (false, _) => self.active_tasks.wait_until_needed().await,
                            (true, true) => tokio::time::sleep(SMALL_TURN_PAUSE).await,
                            (true, false) => {}
                        }
                    };
                    tokio::select! { () = rest => {}, () = stop.cancelled() => {} }
                }
                Err(error) => backoff.pause_after("relay", &error, &stop).await,
            }
        }
    }

    /// Returns a ticket if the bus is available. After it was lost, one task at a time probes it and the others wait.
    async fn await_bus(&self, stop: &CancellationToken) -> Option<Ticket> {
        let acquired = self.breaker.lock().try_acquire(self.now_ms());
        match acquired {
            Ok(ticket) if ticket.kind() == TicketKind::Call => Some(ticket),
            Ok(probe) => {
                self.probe(probe).await;
                None
            }
            Err(rejection) => {
                let pause = Duration::from_millis(rejection.retry_after_ms);
                tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => {} }
                None
            }
        }
    }

    async fn probe(&self, ticket: Ticket) {
        match self.broker.ping().await {
            Ok(()) => {
                if self.complete(ticket, Outcome::Success) == Some(BreakerChange::Closed) {
                    tracing::info!(
                        bus = self.broker.name(),
                        "the bus is available again; publishing the waiting messages"
                    );
                    self.record_state(None).await;
                }
            }
            Err(error) => self.record_loss(ticket, &error).await,
        }
    }

    async fn record_loss(&self, ticket: Ticket, error: &BrokerError) {
        if matches!(self.complete(ticket, Outcome::Failure), Some(BreakerChange::Opened { .. })) {
            tracing::warn!(bus = self.broker.name(), %error, "the bus is not available; messages wait in the outbox");
            self.record_state(Some(error.to_string())).await;
        }
    }

    fn complete(&self, ticket: Ticket, outcome: Outcome) -> Option<BreakerChange> {
        self.breaker.lock().complete(ticket, outcome, self.now_ms(), rand::random())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Publishes a turn's messages and records the settlement of each.
    async fn relay(&self, turn: OutboxTurn, ticket: Ticket, sizer: &mut BatchSizer) -> Result<(), BusError> {
        let parcels = turn.parcels();
        measure::fetched(parcels.len());
        sizer.record(parcels.len(), parcels.iter().map(|parcel| parcel.body.len()).sum());
        let publish = self.broker.publish(parcels);
        let published = tokio::time::timeout(self.config.publish_timeout, publish).await.unwrap_or_else(|_| {
            Err(BrokerError::Unavailable(format!("no response within {} ms", self.config.publish_timeout.as_millis())))
        });
        let outcomes = match published {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // Dropping the turn leaves its messages in the outbox.
                self.record_loss(ticket, &error).await;
                if matches!(error, BrokerError::Missing(_)) {
                    let declared = self.broker.declare().await;
                    tracing::warn!(
                        bus = self.broker.name(),
                        ?declared,
                        "the bus lacked declared objects; declared them again"
                    );
                }
                return Ok(());
            }
        };
        let mut outcomes = outcomes.into_iter();
        let settlements: Vec<Settlement> =
            turn.messages().iter().map(|message| self.settlement(message, outcomes.next())).collect();
        let published: Vec<Timestamp> = turn.messages().iter().map(OutboxMessage::published_at).collect();
        let counted: Vec<u64> = self.counters.iter().map(|counter| confirmed(counter, &turn, &settlements)).collect();
        turn.settle(&settlements).await?;
        measure::relayed(&settlements, published.into_iter(), Timestamp::now());
        self.counters.iter().zip(counted).for_each(|(counter, messages)| counter.add(messages));
        Ok(())
    }

    fn settlement(&self, message: &OutboxMessage, outcome: Option<PublishOutcome>) -> Settlement {
        let error = match outcome {
            Some(PublishOutcome::Accepted) => return Settlement::Done,
            Some(PublishOutcome::Refused(error)) => error,
            None => "the bus did not confirm it".to_owned(),
        };
        tracing::warn!(
            bus = self.broker.name(), event_id = %message.event_id(), topic = %message.topic(), attempt = message.attempt(), error, "the bus refused a message"
        );
        match self.config.refusal_policy().delay_ms(message.attempt(), rand::random()) {
            Some(delay_ms) => Settlement::Retry { after: Duration::from_millis(delay_ms), error },
            None => Settlement::Dead { reason: DeadReason::RefusedByBus, error },
        }
    }

    /// Records the state of the bus every few seconds, for processes that have no connection of their own.
    async fn report(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let up = self.breaker.lock().is_closed();
            measure::bus_up(self.broker.name(), up);
            let error = if up { None } else { self.last_error.lock().clone() };
            self.record_state(error.or_else(|| (!up).then(|| "lost".to_owned()))).await;
            tokio::select! { () = tokio::time::sleep(REPORT_INTERVAL) => {}, () = stop.cancelled() => {} }
        }
        let forgotten = async { self.db.connection().await?.query(store::FORGET_RELAY, &[&self.name]).await };
        if let Err(error) = forgotten.await {
            tracing::debug!(%error, "removing the state of this relay failed; it is removed later");
        }
    }

    async fn record_state(&self, error: Option<String>) {
        let up = error.is_none();
        (*self.last_error.lock()).clone_from(&error);
        let noted = async {
            let connection = self.db.connection().await?;
            connection.query(store::NOTE_RELAY, &[&self.name, &self.broker.name(), &up, &error]).await?;
            Ok::<(), DbError>(())
        };
        if let Err(error) = noted.await {
            tracing::debug!(%error, "recording the state of the bus failed");
        }
    }
}

/// Returns how many of a turn's confirmed messages `counter` counts.
fn confirmed(counter: &PublishCounter, turn: &OutboxTurn, settlements: &[Settlement]) -> u64 {
    let settled = turn.messages().iter().zip(settlements);
    let counted = settled.filter(|(message, settlement)| {
        matches!(settlement, Settlement::Done) && message.topic().exchange == counter.exchange
    });
    counted.count() as u64
}

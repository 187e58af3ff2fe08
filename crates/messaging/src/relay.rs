//! The relay: carries committed messages to an external bus and notes that it did.
//!
//! It takes turns in the lanes of the outbox like a consumer takes them in its queue: whoever holds a lane publishes its
//! messages in their order, waits for the broker's word and writes the lane's new place, so that any number of relays
//! keep the order of keys. Killed before that is written, the next one publishes the same again; readers know it by its key.

use crate::{
    consumer::worker::{IDLE_WAIT, Pause},
    crew::Crew,
    measure,
    portion::Portion,
    store,
    ways::KnownWays,
};
use jiff::Timestamp;
use onceward_db::{Db, DbError};
use onceward_resilience::{Breaker, BreakerSettings, Pass};
use onceward_topology::{Jitter, RetryPolicy, Topology};
use onceward_transport::{Broker, BrokerError, DeadReason, Settlement, TransportError, Verdict};
use onceward_transport_postgres::{
    PostgresTransport,
    carry::{Carried, Outbox, OutboxTurn, Packing},
};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a relay says how it finds the bus.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// The first pause after the bus was lost, and the longest between two looks at it.
const BREAKER: BreakerSettings = BreakerSettings {
    failures: 1,
    window: Duration::from_secs(60),
    open_for: Duration::from_millis(200),
    longest: Duration::from_secs(5),
};

/// A turn of less than this part of a batch costs more than it carries.
const FEW: usize = 32;
/// After such a turn, messages are left to gather.
const GATHER: Duration = Duration::from_millis(20);

/// How a relay works.
#[derive(Clone, Copy, Debug)]
pub struct RelayConfig {
    /// Messages published together at most; fewer if they are heavy.
    pub batch: usize,
    /// Batches on their way at the same time.
    pub tasks: usize,
    /// How often a message that the bus refuses is offered before it is a dead letter.
    pub attempts: u32,
    /// How long a batch may be on its way; the broker should have given up long before.
    pub patience: Duration,
}

impl RelayConfig {
    /// From one second to a minute, doubling.
    fn refusals(&self) -> RetryPolicy {
        RetryPolicy::exponential(self.attempts).jitter(Jitter::Equal)
    }
}

/// Carries messages from the outbox to a broker.
pub struct Relay {
    bus: PostgresTransport,
    broker: Arc<dyn Broker>,
    topology: Topology,
    db: Db,
    config: RelayConfig,
    name: String,
    breaker: Breaker,
    crew: Crew,
    last_error: Mutex<Option<String>>,
}

impl Relay {
    /// A relay from the outbox of `bus` to `broker`.
    pub fn new(
        bus: PostgresTransport,
        broker: Arc<dyn Broker>,
        topology: Topology,
        db: Db,
        config: RelayConfig,
    ) -> Self {
        let name = format!("{}-{}", std::process::id(), Uuid::now_v7().simple());
        let (breaker, crew, last_error) = (Breaker::new(BREAKER), Crew::new(config.tasks), Mutex::default());
        Self { bus, broker, topology, db, config, name, breaker, crew, last_error }
    }

    /// Runs until `stop`; what is on its way then is waited for.
    pub async fn run(self, stop: CancellationToken) {
        let relay = Arc::new(self);
        let ((), Some(outbox)) = tokio::join!(relay.declare(&stop), relay.open(&stop)) else {
            return;
        };
        let mut tasks = JoinSet::new();
        for task in 0..relay.config.tasks {
            tasks.spawn(relay.clone().carry_on(task, outbox.clone(), stop.clone()));
        }
        tasks.spawn(relay.clone().report(stop));
        while tasks.join_next().await.is_some() {}
    }

    /// Makes what the broker lacks. What differs from the topology is left as it is, for a person to decide.
    async fn declare(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if !self.bus_is_there(stop).await {
                continue;
            }
            match self.broker.declare().await {
                Ok(made) => {
                    return made.iter().for_each(|made| tracing::info!(bus = self.broker.name(), "made {made}"));
                }
                Err(error @ (BrokerError::Misconfigured(_) | BrokerError::Missing(_))) => {
                    return tracing::error!(bus = self.broker.name(), %error, "the bus differs; see `onceward topology check`");
                }
                Err(error) => self.lost(&error).await,
            }
        }
    }

    async fn open(&self, stop: &CancellationToken) -> Option<Arc<Outbox>> {
        let mut pause = Pause::default();
        while !stop.is_cancelled() {
            match Outbox::open(&self.bus, self.config.tasks).await {
                Ok(outbox) => return Some(outbox.into()),
                Err(error) => pause.after("relay", &error, stop).await,
            }
        }
        None
    }

    async fn carry_on(self: Arc<Self>, task: usize, outbox: Arc<Outbox>, stop: CancellationToken) {
        let mut pause = Pause::default();
        let mut packing = Packing::new(KnownWays::new(self.topology.clone()));
        let mut portion = Portion::new(self.config.batch);
        while !stop.is_cancelled() {
            if !self.bus_is_there(&stop).await {
                continue;
            }
            match outbox.take(portion.next(), self.crew.at_work(), &mut packing).await {
                // Who hears that there is something must look, so only those wait here who will.
                Ok(None) if self.crew.needs(task) => {
                    tokio::select! { () = outbox.wait(IDLE_WAIT) => {}, () = stop.cancelled() => {} }
                }
                Ok(None) => tokio::select! { () = self.crew.spare() => {}, () = stop.cancelled() => {} },
                Ok(Some(turn)) => {
                    let few = turn.messages().len() < self.config.batch / FEW;
                    self.crew.change(few);
                    match self.carry(turn, &mut portion).await {
                        Ok(()) => pause.reset(),
                        Err(error) => pause.after("relay", &error, &stop).await,
                    }
                    let rest = async {
                        match (self.crew.needs(task), few) {
                            (false, _) => self.crew.spare().await,
                            (true, true) => tokio::time::sleep(GATHER).await,
                            (true, false) => {}
                        }
                    };
                    tokio::select! { () = rest => {}, () = stop.cancelled() => {} }
                }
                Err(error) => pause.after("relay", &error, &stop).await,
            }
        }
    }

    /// Looks after a bus that was lost; one task at a time asks it, the others wait.
    async fn bus_is_there(&self, stop: &CancellationToken) -> bool {
        match self.breaker.ask(Instant::now()) {
            Pass::Go => true,
            Pass::Wait(time) => {
                tokio::select! { () = tokio::time::sleep(time) => {}, () = stop.cancelled() => {} }
                false
            }
            Pass::Probe => match self.broker.ping().await {
                Ok(()) => {
                    if self.breaker.succeeded() {
                        tracing::info!(bus = self.broker.name(), "the bus is back; what waited is on its way");
                        self.note(None).await;
                    }
                    true
                }
                Err(error) => {
                    self.lost(&error).await;
                    false
                }
            },
        }
    }

    async fn lost(&self, error: &BrokerError) {
        let opened = self.breaker.failed(Instant::now());
        if opened {
            tracing::warn!(bus = self.broker.name(), %error, "the bus is lost; messages wait in the outbox");
            self.note(Some(error.to_string())).await;
        }
    }

    /// Publishes a turn's messages and writes down what became of each.
    async fn carry(&self, turn: OutboxTurn, portion: &mut Portion) -> Result<(), TransportError> {
        let parcels = turn.parcels();
        measure::fetched(parcels.len());
        portion.weighed(parcels.len(), parcels.iter().map(|parcel| parcel.body.len()).sum());
        let publish = self.broker.publish(parcels);
        let published = tokio::time::timeout(self.config.patience, publish).await.unwrap_or_else(|_| {
            Err(BrokerError::Unavailable(format!("no answer within {} ms", self.config.patience.as_millis())))
        });
        let verdicts = match published {
            Ok(verdicts) => verdicts,
            Err(error) => {
                // Dropping the turn leaves its messages where they were.
                self.lost(&error).await;
                if matches!(error, BrokerError::Missing(_)) {
                    let declared = self.broker.declare().await;
                    tracing::warn!(bus = self.broker.name(), ?declared, "the bus lacked what was declared there");
                }
                return Ok(());
            }
        };
        let mut verdicts = verdicts.into_iter();
        let settlements: Vec<Settlement> =
            turn.messages().iter().map(|message| self.settlement(message, verdicts.next())).collect();
        measure::relayed(&settlements, turn.messages().first().map(Carried::published_at), Timestamp::now());
        turn.settle(&settlements).await
    }

    fn settlement(&self, message: &Carried, verdict: Option<Verdict>) -> Settlement {
        let error = match verdict {
            Some(Verdict::Accepted) => return Settlement::Done,
            Some(Verdict::Refused(error)) => error,
            None => "the bus did not answer for it".to_owned(),
        };
        tracing::warn!(
            bus = self.broker.name(), event_id = %message.event_id(), topic = %message.topic(), attempt = message.attempt(), error, "the bus refused a message"
        );
        match self.config.refusals().delay_ms(message.attempt(), rand::random()) {
            Some(delay_ms) => Settlement::Retry { after: Duration::from_millis(delay_ms), error },
            None => Settlement::Dead { reason: DeadReason::RefusedByBus, error },
        }
    }

    /// Says every few seconds how this relay finds the bus, for those who have none of their own.
    async fn report(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let up = self.breaker.is_closed();
            measure::bus_up(self.broker.name(), up);
            let error = if up { None } else { self.last_error.lock().expect("no panic while held").clone() };
            self.note(error.or_else(|| (!up).then(|| "lost".to_owned()))).await;
            tokio::select! { () = tokio::time::sleep(REPORT_EVERY) => {}, () = stop.cancelled() => {} }
        }
        let forgotten = async { self.db.connection().await?.query(store::FORGET_RELAY, &[&self.name]).await };
        if let Err(error) = forgotten.await {
            tracing::debug!(%error, "this relay is forgotten a little later");
        }
    }

    async fn note(&self, error: Option<String>) {
        let up = error.is_none();
        (*self.last_error.lock().expect("no panic while held")).clone_from(&error);
        let noted = async {
            let connection = self.db.connection().await?;
            connection.query(store::NOTE_RELAY, &[&self.name, &self.broker.name(), &up, &error]).await?;
            Ok::<(), DbError>(())
        };
        if let Err(error) = noted.await {
            tracing::debug!(%error, "could not write down how the bus is");
        }
    }
}

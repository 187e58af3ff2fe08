//! Running a consumer until it is told to stop.

use super::{Consumer, Mode, Slots, leased, outcome::Retries, transactional::Engine};
use onceward_db::Db;
use onceward_envelope::{Clock, SchemaRegistry, SystemClock};
use onceward_topology::Topology;
use onceward_transport::{Intake, Subscription, Transport, TransportError};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a task sleeps at most before it looks again.
pub(crate) const IDLE_WAIT: Duration = Duration::from_secs(5);
/// A turn is sized so that it takes about this long: long enough to share its commit, short enough
/// not to hold up its lanes.
const TURN_TARGET: Duration = Duration::from_millis(100);
const FIRST_TURN: usize = 32;

/// What consumers need to run.
#[derive(Clone)]
pub struct WorkerContext {
    /// The database of effects; its transactions can publish.
    pub db: Db,
    /// The bus to read from.
    pub bus: Arc<dyn Transport>,
    /// The contracts.
    pub schemas: SchemaRegistry,
    /// The queues' definitions.
    pub topology: Topology,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What all consumers of the process share.
    pub slots: Slots,
}

impl WorkerContext {
    /// A context by the machine's clock, without a limit over all consumers.
    pub fn new(db: Db, bus: Arc<dyn Transport>, schemas: SchemaRegistry, topology: Topology) -> Self {
        Self { db, bus, schemas, topology, clock: Arc::new(SystemClock), slots: Slots::unlimited() }
    }
}

/// A consumer at work.
pub struct Worker;

impl Worker {
    /// Runs `consumer` until `stop`; returns when everything in hand is settled or handed back.
    pub async fn run(consumer: Consumer, context: WorkerContext, stop: CancellationToken) {
        let mut pause = Pause::default();
        let intake: Arc<dyn Intake> = loop {
            match context.bus.open(subscription(&consumer)).await {
                Ok(intake) => break intake.into(),
                Err(error) => pause.after(&consumer.name, &error, &stop).await,
            }
            if stop.is_cancelled() {
                return;
            }
        };
        let queue = context.topology.find_queue(&consumer.queue).cloned();
        let engine = Arc::new(Engine {
            queue: queue.unwrap_or_else(|| onceward_topology::Queue::work(&consumer.queue)),
            schemas: context.schemas.clone(),
            clock: context.clock.clone(),
            retries: Retries::new(&consumer),
            consumer,
        });
        match engine.consumer.mode {
            Mode::Leased => leased::run(engine, intake, context, stop).await,
            Mode::Transactional => {
                let mut tasks = JoinSet::new();
                for _ in 0..engine.consumer.concurrency {
                    tasks.spawn(take_turns(engine.clone(), intake.clone(), context.slots.clone(), stop.clone()));
                }
                while tasks.join_next().await.is_some() {}
            }
        }
    }
}

fn subscription(consumer: &Consumer) -> Subscription {
    Subscription {
        consumer: consumer.name.clone(),
        queue: consumer.queue.clone(),
        ordered: consumer.ordered,
        concurrency: consumer.concurrency,
        isolate_killers: true,
    }
}

async fn take_turns(engine: Arc<Engine>, intake: Arc<dyn Intake>, slots: Slots, stop: CancellationToken) {
    let mut pause = Pause::default();
    let mut size = FIRST_TURN.min(engine.consumer.prefetch);
    let precedence = engine.consumer.precedence;
    let mut slot = Vec::new();
    while !stop.is_cancelled() {
        let entering = async {
            match slot.is_empty() {
                true => slots.enter(precedence, 1).await,
                false => slots.again(std::mem::take(&mut slot), precedence).await,
            }
        };
        slot = tokio::select! { entered = entering => entered, () = stop.cancelled() => return };
        let ran = match intake.take(size).await {
            Ok(Some(turn)) => engine.run_turn(turn).await,
            Ok(None) => {
                slot.clear();
                tokio::select! { () = intake.wait(IDLE_WAIT) => {}, () = stop.cancelled() => {} }
                continue;
            }
            Err(error) => Err(error),
        };
        match ran {
            Ok((handled, took)) => {
                pause.reset();
                size = next_size(size, engine.consumer.prefetch, handled, took);
            }
            Err(error) => {
                slot.clear();
                pause.after(&engine.consumer.name, &error, &stop).await;
            }
        }
    }
}

/// Grows while turns are short, shrinks when they are long.
fn next_size(size: usize, most: usize, handled: usize, took: Duration) -> usize {
    if took > TURN_TARGET * 2 {
        (size / 2).max(1)
    } else if took < TURN_TARGET && handled >= size / 2 {
        (size * 2).min(most)
    } else {
        size
    }
}

/// Waiting after errors, longer each time.
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Self::FIRST)
    }
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    pub(crate) fn reset(&mut self) {
        self.0 = Self::FIRST;
    }

    pub(crate) async fn after(&mut self, consumer: &str, error: &TransportError, stop: &CancellationToken) {
        tracing::warn!(consumer, %error, "could not work; trying again");
        let pause = self.0.mul_f64(rand::random_range(0.5..1.0));
        self.0 = (self.0 * 2).min(Self::LONGEST);
        tokio::select! { () = tokio::time::sleep(pause) => {}, () = stop.cancelled() => {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_grow_while_they_are_short_and_shrink_when_they_are_long() {
        assert_eq!(next_size(32, 500, 32, Duration::from_millis(5)), 64);
        assert_eq!(next_size(400, 500, 400, Duration::from_millis(5)), 500);
        assert_eq!(next_size(64, 500, 3, Duration::from_millis(5)), 64);
        assert_eq!(next_size(64, 500, 64, Duration::from_secs(3)), 32);
        assert_eq!(next_size(1, 500, 1, Duration::from_secs(3)), 1);
    }
}

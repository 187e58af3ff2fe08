//! Runs a consumer until it is stopped.

use super::{
    Consumer, Handlers, Slots, WorkerPools, engine::ConsumerEngine, handler::HandlerTable, leased,
    options::ConsumerOptions, retries::Retries, transactional::TransactionalEngine, unknown_types::UnknownTypes,
};
use crate::{backoff::Backoff, measure};
use onceward_db::Db;
use onceward_envelope::{Clock, SchemaRegistry, SystemClock};
use onceward_message_log::{MessageLog, QueueReader, Subscription};
use onceward_outbound::Outbound;
use onceward_supervisor::Supervisor;
use onceward_topology::{Queue, Topology};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The maximum time that a task sleeps before it checks for messages again.
pub(crate) const IDLE_WAIT: Duration = Duration::from_secs(5);
/// How often it is checked whether a pool has grown.
const POOL_CHECK: Duration = Duration::from_millis(500);
/// The target duration of a turn: long enough to share its commit, short enough not to block its lanes.
const TURN_TARGET: Duration = Duration::from_millis(100);
const FIRST_TURN: usize = 32;

/// The dependencies of running consumers.
#[derive(Clone)]
pub struct WorkerContext {
    /// The database of effects; its transactions can publish.
    pub db: Db,
    /// The message log to read from.
    pub log: MessageLog,
    /// The contracts.
    pub schemas: SchemaRegistry,
    /// The queues' definitions.
    pub topology: Topology,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The slots that all consumers of the process share.
    pub slots: Slots,
    /// The worker pools of the process.
    pub pools: WorkerPools,
    /// The supervisor that restarts the consumers' tasks.
    pub supervisor: Supervisor,
    /// The destinations of leased handlers.
    pub outbound: Outbound,
    /// How long messages of unknown types wait, for consumers without a limit of their own; zero means no limit.
    pub unknown_for: Duration,
    /// Cancelled when the grace period of a stop is nearly over: leased calls that still run are abandoned, and their
    /// messages are returned without counting an attempt.
    pub hand_back: CancellationToken,
}

/// The default time that messages of unknown types wait.
const UNKNOWN_FOR: Duration = Duration::from_secs(24 * 3600);

impl WorkerContext {
    /// Creates a context with the system clock, no destinations and no limit over all consumers.
    pub fn new(db: Db, log: MessageLog, schemas: SchemaRegistry, topology: Topology) -> Self {
        let (slots, outbound) = (Slots::unlimited(), Outbound::new([], None));
        Self {
            db,
            log,
            schemas,
            topology,
            clock: Arc::new(SystemClock),
            pools: WorkerPools::new(&[], &slots, &outbound),
            slots,
            supervisor: Supervisor::new(),
            outbound,
            unknown_for: UNKNOWN_FOR,
            hand_back: CancellationToken::new(),
        }
    }

    fn engine<H>(&self, options: ConsumerOptions, handlers: HandlerTable<H>) -> Arc<ConsumerEngine<H>> {
        let queue = self.topology.find_queue(&options.queue).cloned();
        Arc::new(ConsumerEngine {
            queue: queue.unwrap_or_else(|| Queue::work(&options.queue)),
            schemas: self.schemas.clone(),
            clock: self.clock.clone(),
            retries: Retries::new(&options),
            unknown_types: UnknownTypes::default(),
            pool: self.pools.of_queue(&options.queue),
            options,
            handlers,
        })
    }
}

/// Runs `consumer` until `stop`, restarting tasks that panic; returns when all messages in flight are settled or
/// returned.
pub async fn run(consumer: Consumer, context: WorkerContext, stop: CancellationToken) {
    let work = || async {
        consume(consumer.clone(), context.clone(), stop.clone()).await;
        Ok(())
    };
    context.supervisor.keep_running(&task_name(&consumer.options), &stop, work).await;
}

async fn consume(Consumer { mut options, handlers }: Consumer, context: WorkerContext, stop: CancellationToken) {
    let _online = measure::Online::new(&options.queue);
    options.unknown_for.get_or_insert(context.unknown_for);
    let Some(reader) = open(&options, &context, &stop).await else {
        return;
    };
    match handlers {
        Handlers::Leased(handlers) => {
            let engine = context.engine(options, handlers);
            leased::run(engine, reader, context, stop).await;
        }
        Handlers::Transactional(handlers) => {
            let engine = context.engine(options, handlers);
            let mut tasks = JoinSet::new();
            while !stop.is_cancelled() {
                // A task without a slot only waits, so that tasks of a pool that has shrunk may stay.
                let wanted = engine.concurrency().unwrap_or_else(|| context.slots.limit(engine.slot_pool()));
                while tasks.len() < wanted {
                    tasks.spawn(keep_taking_turns(engine.clone(), reader.clone(), context.clone(), stop.clone()));
                }
                tokio::select! { () = tokio::time::sleep(POOL_CHECK), if engine.pool.is_some() => {}, () = stop.cancelled() => {} }
            }
            while tasks.join_next().await.is_some() {}
        }
    }
}

/// Opens the consumer's queue, retrying until it succeeds; returns `None` if stopped meanwhile.
async fn open(
    options: &ConsumerOptions,
    context: &WorkerContext,
    stop: &CancellationToken,
) -> Option<Arc<QueueReader>> {
    let mut backoff = Backoff::default();
    let concurrency = context.pools.of_queue(&options.queue).map_or(options.concurrency, |pool| pool.max);
    loop {
        match context.log.open(subscription(options, concurrency)).await {
            Ok(reader) => return Some(reader.into()),
            Err(error) => backoff.pause_after(&options.name, &error, stop).await,
        }
        if stop.is_cancelled() {
            return None;
        }
    }
}

/// The name under which the tasks of a consumer are supervised.
pub(crate) fn task_name(options: &ConsumerOptions) -> String {
    format!("consumer:{}", options.name)
}

/// A turn that panics is rolled back, and its messages are delivered again.
async fn keep_taking_turns(
    engine: Arc<TransactionalEngine>,
    reader: Arc<QueueReader>,
    context: WorkerContext,
    stop: CancellationToken,
) {
    let work = || async {
        take_turns(engine.clone(), reader.clone(), context.slots.clone(), stop.clone()).await;
        Ok(())
    };
    context.supervisor.keep_running(&task_name(&engine.options), &stop, work).await;
}

fn subscription(options: &ConsumerOptions, concurrency: usize) -> Subscription {
    Subscription {
        consumer: options.name.clone(),
        queue: options.queue.clone(),
        ordered: options.ordered,
        holds_keys: options.holds_keys,
        concurrency,
        isolate_killers: true,
    }
}

async fn take_turns(engine: Arc<TransactionalEngine>, reader: Arc<QueueReader>, slots: Slots, stop: CancellationToken) {
    let mut backoff = Backoff::default();
    let mut size = FIRST_TURN.min(engine.options.prefetch);
    let (pool, precedence) = (engine.slot_pool(), engine.options.precedence);
    let mut slot = Vec::new();
    while !stop.is_cancelled() {
        let acquiring = async {
            match slot.is_empty() {
                true => slots.acquire(pool, precedence, 1).await,
                false => slots.keep_or_yield(std::mem::take(&mut slot), pool, precedence).await,
            }
        };
        slot = tokio::select! { acquired = acquiring => acquired, () = stop.cancelled() => return };
        let result = match reader.take(size).await {
            Ok(Some(turn)) => engine.run_turn(turn).await,
            Ok(None) => {
                slot.clear();
                tokio::select! { () = reader.wait(IDLE_WAIT) => {}, () = stop.cancelled() => {} }
                continue;
            }
            Err(error) => Err(error),
        };
        match result {
            Ok((handled, elapsed)) => {
                backoff.reset();
                size = next_size(size, engine.options.prefetch, handled, elapsed);
            }
            Err(error) => {
                slot.clear();
                backoff.pause_after(&engine.options.name, &error, &stop).await;
            }
        }
    }
}

/// Increases the size while turns are short, reduces it when they are long.
fn next_size(size: usize, most: usize, handled: usize, elapsed: Duration) -> usize {
    if elapsed > TURN_TARGET * 2 {
        (size / 2).max(1)
    } else if elapsed < TURN_TARGET && handled >= size / 2 {
        (size * 2).min(most)
    } else {
        size
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

//! Handling messages under leases: first the external call, then its record and the settlement in one transaction.

use super::{
    delivery_check::check,
    engine::{ConsumerEngine, SettlementCounts, guarded, message_span, scope_of},
    handler::{ErasedLeasedHandler, LeaseContext},
    held_leases::{HeldLeases, LeaseGuard},
    result_recorder::{FinishedCall, RecordOutcome, ResultRecorder},
    run::{IDLE_WAIT, WorkerContext, task_name},
};
use crate::{Failure, backoff::Backoff, measure, outbox};
use futures_util::FutureExt;
use onceward_broker::Settlement;
use onceward_message_log::{BusError, LeasedMessage, QueueReader};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The engine of a leased consumer.
pub(crate) type LeasedEngine = ConsumerEngine<Arc<dyn ErasedLeasedHandler>>;

/// Takes leases and handles their messages until `stop`; then lets the calls in flight finish, and returns the leases
/// of those that have not finished when [`WorkerContext::hand_back`] is cancelled.
pub(crate) async fn run(
    engine: Arc<LeasedEngine>,
    reader: Arc<QueueReader>,
    context: WorkerContext,
    stop: CancellationToken,
) {
    let held = Arc::new(HeldLeases::default());
    // In a set, so that it ends with this task, however that ends: a heartbeat without its worker would keep leases
    // alive that no task works on.
    let mut heartbeat = JoinSet::new();
    heartbeat.spawn(keep_heartbeat_running(held.clone(), reader.clone(), engine.clone(), context.clone()));
    let recorder = Arc::new(ResultRecorder::new(engine.clone(), reader.clone(), context.db.clone()));
    let permits = Arc::new(Semaphore::new(engine.concurrency().unwrap_or(Semaphore::MAX_PERMITS)));
    let mut tasks = JoinSet::new();
    let mut backoff = Backoff::default();
    while !stop.is_cancelled() {
        while tasks.try_join_next().is_some() {}
        let free = tokio::select! {
            permit = permits.acquire() => { drop(permit); permits.available_permits() }
            () = stop.cancelled() => break,
        };
        let wanted = free.clamp(1, engine.options.prefetch);
        let mut slots = tokio::select! {
            slots = context.slots.acquire(engine.slot_pool(), engine.options.precedence, wanted) => slots,
            () = stop.cancelled() => break,
        };
        match reader.lease(slots.len(), engine.options.lease).await {
            Ok(leased) if leased.is_empty() => {
                drop(slots);
                backoff.reset();
                tokio::select! { () = reader.wait(IDLE_WAIT) => {}, () = stop.cancelled() => {} }
            }
            Ok(leased) => {
                backoff.reset();
                for leased in leased {
                    let capacity = (permits.clone().acquire_owned().await.expect("never closed"), slots.pop());
                    let token = context.hand_back.child_token();
                    let guard = LeaseGuard::new(&held, leased.lease, token.clone());
                    let alone = leased.alone;
                    let task = LeasedTask {
                        engine: engine.clone(),
                        reader: reader.clone(),
                        recorder: recorder.clone(),
                        context: context.clone(),
                    };
                    if alone {
                        while tasks.join_next().await.is_some() {}
                    }
                    tasks.spawn(async move {
                        task.run(Arc::new(leased), token).await;
                        drop((guard, capacity));
                    });
                    if alone {
                        while tasks.join_next().await.is_some() {}
                    }
                }
            }
            Err(error) => {
                drop(slots);
                backoff.pause_after(&engine.options.name, &error, &stop).await;
            }
        }
    }
    while tasks.join_next().await.is_some() {}
    heartbeat.abort_all();
}

/// Sends heartbeats even after the stop signal, because messages in flight are still being handled. It ends with the
/// set it was spawned in.
async fn keep_heartbeat_running(
    held: Arc<HeldLeases>,
    reader: Arc<QueueReader>,
    engine: Arc<LeasedEngine>,
    context: WorkerContext,
) {
    let never = CancellationToken::new();
    let work = || async {
        held.send_heartbeats(&reader, engine.options.lease).await;
        Ok(())
    };
    context.supervisor.keep_running(&task_name(&engine.options), &never, work).await;
}

/// The handling of one leased message.
struct LeasedTask {
    engine: Arc<LeasedEngine>,
    reader: Arc<QueueReader>,
    recorder: Arc<ResultRecorder>,
    context: WorkerContext,
}

impl LeasedTask {
    async fn run(self, leased: Arc<LeasedMessage>, token: CancellationToken) {
        let work = async {
            if !leased.alone || self.start_alone(&leased).await {
                self.handle(&leased, token).await;
            }
        };
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            let error = "it panicked outside of a handler; the message is delivered again when its lease expires";
            self.context.supervisor.failed(&task_name(&self.engine.options), error);
        }
    }

    async fn start_alone(&self, leased: &LeasedMessage) -> bool {
        let (consumer, event_id) = (&self.engine.options.name, leased.delivery.envelope.event_id);
        match self.reader.start_alone(leased.lease).await {
            Ok(true) => {
                tracing::warn!(%consumer, %event_id, "workers died while they held this message; handling it alone");
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::warn!(
                    %consumer, %event_id, %error,
                    "starting a message failed; it is delivered again when its lease expires"
                );
                false
            }
        }
    }

    async fn handle(&self, leased: &Arc<LeasedMessage>, token: CancellationToken) {
        let (engine, delivery) = (&self.engine, &leased.delivery);
        let settled = match check(engine.as_ref(), delivery, engine.clock.now()) {
            Err(settlement) => {
                engine.log(delivery, &settlement);
                self.settle(leased, settlement, Duration::ZERO).await
            }
            Ok(handler) => {
                let span = message_span(&engine.options, delivery);
                self.perform(leased, handler, token).instrument(span).await
            }
        };
        self.reader.poll_now();
        let (consumer, event_id) = (&engine.options.name, delivery.envelope.event_id);
        match settled {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(%consumer, %event_id, "the lease was lost to another worker; discarding the result");
            }
            Err(error) => tracing::warn!(
                %consumer, %event_id, %error,
                "settling a message failed; it is delivered again when its lease expires"
            ),
        }
    }

    /// Calls the handler and settles the message. Returns `false` if the lease was lost.
    async fn perform(
        &self,
        leased: &Arc<LeasedMessage>,
        handler: &Arc<dyn ErasedLeasedHandler>,
        token: CancellationToken,
    ) -> Result<bool, BusError> {
        let (engine, delivery) = (&self.engine, &leased.delivery);
        let started = Instant::now();
        let scope = scope_of(&engine.options, delivery, &tracing::Span::current());
        let lease = LeaseContext {
            cancelled: token.clone(),
            outbound: self.context.outbound.clone(),
            db: self.context.db.clone(),
            scope: scope.clone(),
        };
        let work = tokio::select! {
            work = guarded(handler.perform(&lease, delivery), engine.options.timeout) => work,
            () = token.cancelled() => Err(Failure::snooze(Duration::ZERO, "returned by a worker that is stopping")),
        };
        measure::ran(&engine.options.queue, started.elapsed(), 1);
        let work = match work {
            Ok(work) => work,
            Err(failure) => {
                let settlement = engine.settlement(delivery, Err(failure));
                return self.settle(leased, settlement, started.elapsed()).await;
            }
        };
        let span = tracing::Span::current();
        let call = FinishedCall { leased: leased.clone(), handler: handler.clone(), work, scope, span };
        match self.recorder.record(call).await? {
            RecordOutcome::Recorded => {
                let counts = SettlementCounts::of([&engine.settlement(delivery, Ok(()))]);
                engine.report(&counts, started.elapsed());
                Ok(true)
            }
            RecordOutcome::LeaseLost => Ok(false),
            RecordOutcome::Failed(failure) => {
                self.settle(leased, engine.settlement(delivery, Err(failure)), started.elapsed()).await
            }
        }
    }

    /// Settles a message without effects, in a transaction of its own. `busy` is the time that it took to handle it. Returns
    /// `false` if the lease was lost.
    async fn settle(&self, leased: &LeasedMessage, settlement: Settlement, busy: Duration) -> Result<bool, BusError> {
        let (engine, delivery) = (&self.engine, &leased.delivery);
        let counts = SettlementCounts::of(std::slice::from_ref(&settlement));
        let scope = scope_of(&engine.options, delivery, &tracing::Span::current());
        let mut tx = self.context.db.begin(scope).await?;
        if let Settlement::Dead { reason, .. } = &settlement {
            outbox::copy_dead_letter(&mut tx, delivery, &engine.queue, *reason).await?;
        }
        let is_held = self.reader.settle_lease(&mut tx, leased, settlement).await?;
        if is_held {
            tx.commit().await?;
            engine.report(&counts, busy);
        }
        Ok(is_held)
    }
}

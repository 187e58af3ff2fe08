//! Handling messages under leases: the outside call first, then its record and the settlement in one transaction.

use super::{
    check::check,
    handler::{ErasedLeased, LeaseContext},
    transactional::{Counts, Engine, guarded, scope_of, span},
    worker::WorkerContext,
};
use crate::{Failure, measure, outbox};
use onceward_transport::{Intake, LeaseId, Leased, Settlement, TransportError};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// The leases this process holds.
#[derive(Default)]
struct Held(Mutex<HashMap<LeaseId, CancellationToken>>);

impl Held {
    fn all(&self) -> Vec<LeaseId> {
        self.0.lock().expect("no panic while held").keys().copied().collect()
    }

    fn insert(&self, lease: LeaseId, token: CancellationToken) {
        self.0.lock().expect("no panic while held").insert(lease, token);
    }

    fn remove(&self, lease: LeaseId) {
        self.0.lock().expect("no panic while held").remove(&lease);
    }

    fn cancel_except(&self, kept: &[LeaseId]) {
        for (lease, token) in &*self.0.lock().expect("no panic while held") {
            if !kept.contains(lease) {
                token.cancel();
            }
        }
    }
}

/// Takes and handles leases until told to stop; then finishes what it holds, or hands it back.
pub(crate) async fn run(engine: Arc<Engine>, intake: Arc<dyn Intake>, context: WorkerContext, stop: CancellationToken) {
    let held = Arc::new(Held::default());
    // In a set, so that it ends with this task however that ends: a heartbeat without its worker
    // would keep leases alive that nobody works on.
    let mut beating = JoinSet::new();
    beating.spawn(heartbeat(held.clone(), intake.clone(), engine.consumer.lease));
    let places = Arc::new(Semaphore::new(engine.consumer.concurrency));
    let mut tasks = JoinSet::new();
    let mut pause = super::worker::Pause::default();
    while !stop.is_cancelled() {
        while tasks.try_join_next().is_some() {}
        let free = tokio::select! {
            permit = places.acquire() => { drop(permit); places.available_permits() }
            () = stop.cancelled() => break,
        };
        let mut slots = tokio::select! {
            slots = context.slots.enter(engine.consumer.precedence, free.clamp(1, engine.consumer.prefetch)) => slots,
            () = stop.cancelled() => break,
        };
        match intake.lease(slots.len(), engine.consumer.lease).await {
            Ok(leased) if leased.is_empty() => {
                drop(slots);
                pause.reset();
                tokio::select! { () = intake.wait(super::worker::IDLE_WAIT) => {}, () = stop.cancelled() => {} }
            }
            Ok(leased) => {
                pause.reset();
                for leased in leased {
                    let place = (places.clone().acquire_owned().await.expect("never closed"), slots.pop());
                    let token = stop.child_token();
                    held.insert(leased.lease, token.clone());
                    let (engine, intake, context, held) =
                        (engine.clone(), intake.clone(), context.clone(), held.clone());
                    tasks.spawn(async move {
                        handle(&engine, intake.as_ref(), &context, &leased, token).await;
                        held.remove(leased.lease);
                        drop(place);
                    });
                }
            }
            Err(error) => {
                drop(slots);
                pause.after(&engine.consumer.name, &error, &stop).await;
            }
        }
    }
    while tasks.join_next().await.is_some() {}
    beating.abort_all();
}

async fn heartbeat(held: Arc<Held>, intake: Arc<dyn Intake>, lease: Duration) {
    loop {
        tokio::time::sleep(lease / 3).await;
        let leases = held.all();
        if leases.is_empty() {
            continue;
        }
        match intake.extend(&leases, lease).await {
            Ok(kept) => held.cancel_except(&kept_or_new(&held, &leases, kept)),
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed; leases run on until their time")
            }
        }
    }
}

/// Leases taken while the heartbeat was under way were not asked about, so they are not lost.
fn kept_or_new(held: &Held, asked: &[LeaseId], mut kept: Vec<LeaseId>) -> Vec<LeaseId> {
    kept.extend(held.all().into_iter().filter(|lease| !asked.contains(lease)));
    kept
}

async fn handle(
    engine: &Engine,
    intake: &dyn Intake,
    context: &WorkerContext,
    leased: &Leased,
    token: CancellationToken,
) {
    let delivery = &leased.delivery;
    let consumer = &engine.consumer;
    let checked = check(consumer, &engine.queue, &engine.schemas, &consumer.leased, delivery, engine.clock.now());
    let settled = match checked {
        Err(settlement) => {
            engine.log(delivery, &settlement);
            settle(intake, context, engine, leased, settlement).await
        }
        Ok(handler) => {
            let span = span(consumer, delivery);
            perform(engine, intake, context, leased, handler, token).instrument(span).await
        }
    };
    intake.nudge();
    match settled {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            consumer = %consumer.name, event_id = %delivery.envelope.event_id,
            "the lease was lost to another worker; this result was discarded"
        ),
        Err(error) => tracing::warn!(
            consumer = %consumer.name, event_id = %delivery.envelope.event_id, %error,
            "could not settle; the message comes again when its lease runs out"
        ),
    }
}

async fn perform(
    engine: &Engine,
    intake: &dyn Intake,
    context: &WorkerContext,
    leased: &Leased,
    handler: &Arc<dyn ErasedLeased>,
    token: CancellationToken,
) -> Result<bool, TransportError> {
    let delivery = &leased.delivery;
    let started = Instant::now();
    let lease = LeaseContext { cancelled: token.clone() };
    let work = tokio::select! {
        work = guarded(handler.perform(&lease, delivery), engine.consumer.timeout) => work,
        () = token.cancelled() => Err(Failure::snooze(Duration::ZERO, "handed back by a worker that stops")),
    };
    measure::ran(&engine.consumer.queue, started.elapsed(), 1);
    let work = match work {
        Ok(work) => work,
        Err(failure) => {
            let settlement = engine.settlement(delivery, Err(failure));
            return settle(intake, context, engine, leased, settlement).await;
        }
    };
    let mut tx = context.db.begin(scope_of(&engine.consumer, delivery, &tracing::Span::current())).await?;
    if !intake.settle_lease(&mut tx, leased, Settlement::Done).await? {
        return Ok(false);
    }
    match guarded(handler.record(&mut tx, delivery, work), engine.consumer.timeout).await {
        Ok(()) => {
            tx.commit().await?;
            Counts::of([&engine.settlement(delivery, Ok(()))]).report(&engine.consumer.queue);
            Ok(true)
        }
        Err(failure) => {
            tx.rollback().await?;
            let settlement = engine.settlement(delivery, Err(failure));
            settle(intake, context, engine, leased, settlement).await
        }
    }
}

async fn settle(
    intake: &dyn Intake,
    context: &WorkerContext,
    engine: &Engine,
    leased: &Leased,
    settlement: Settlement,
) -> Result<bool, TransportError> {
    let counts = Counts::of(std::slice::from_ref(&settlement));
    let mut tx = context.db.begin(scope_of(&engine.consumer, &leased.delivery, &tracing::Span::current())).await?;
    if let Settlement::Dead { reason, .. } = &settlement {
        outbox::copy_dead_letter(&mut tx, &leased.delivery, &engine.queue, *reason).await?;
    }
    let held = intake.settle_lease(&mut tx, leased, settlement).await?;
    if held {
        tx.commit().await?;
        counts.report(&engine.consumer.queue);
    }
    Ok(held)
}

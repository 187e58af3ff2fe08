//! Handling messages in the transaction that settles them, many to a commit.
//!
//! A turn is first handled as a whole. If any message fails, all of it is undone and handled again
//! with a savepoint around each message, so that one bad message costs its neighbours nothing but time.

use super::{
    Consumer,
    check::check,
    handler::{ErasedHandler, Handed},
    outcome::Retries,
};
use crate::{Failure, measure, outbox};
use futures_util::FutureExt;
use onceward_db::{Scope, Tx};
use onceward_envelope::{Actor, Clock, SchemaRegistry, TraceContext};
use onceward_topology::Queue;
use onceward_transport::{Delivery, Settlement, TransportError, Turn};
use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::Instrument;

/// Everything a consumer's tasks share.
pub(crate) struct Engine {
    pub consumer: Consumer,
    pub queue: Queue,
    pub schemas: SchemaRegistry,
    pub clock: Arc<dyn Clock>,
    pub retries: Retries,
}

/// Keys of which a message waits; the rest of their messages wait too.
pub(crate) struct WaitingKeys<'d> {
    ordered: bool,
    keys: HashSet<(&'d str, &'d str)>,
}

impl<'d> WaitingKeys<'d> {
    pub(crate) fn new(ordered: bool) -> Self {
        Self { ordered, keys: HashSet::new() }
    }

    fn key(delivery: &Delivery) -> Option<(&str, &str)> {
        Some((delivery.queue_tenant.as_str(), delivery.ordering_key.as_deref()?))
    }

    pub(crate) fn waits(&self, delivery: &Delivery) -> bool {
        !self.keys.is_empty() && Self::key(delivery).is_some_and(|key| self.keys.contains(&key))
    }

    pub(crate) fn note(&mut self, delivery: &'d Delivery, settlement: &Settlement) {
        let waits = matches!(settlement, Settlement::Retry { .. } | Settlement::Wait { .. } | Settlement::Behind);
        if self.ordered && waits {
            self.keys.extend(Self::key(delivery));
        }
    }
}

impl Engine {
    /// Handles and settles a turn. Gives the number of messages and the time it took.
    pub(crate) async fn run_turn(&self, mut turn: Box<dyn Turn>) -> Result<(usize, Duration), TransportError> {
        let started = Instant::now();
        self.measure_wait(turn.deliveries());
        let settlements = match self.together(turn.as_mut()).await? {
            Some(settlements) => {
                let settled = turn.deliveries().iter().zip(&settlements);
                settled.for_each(|(delivery, settlement)| self.log(delivery, settlement));
                settlements
            }
            None => self.one_by_one(turn.as_mut()).await?,
        };
        let (deliveries, tx) = turn.split();
        for (delivery, settlement) in deliveries.iter().zip(&settlements) {
            if let Settlement::Dead { reason, .. } = settlement {
                outbox::copy_dead_letter(tx, delivery, &self.queue, *reason).await?;
            }
        }
        let counts = Counts::of(&settlements);
        turn.settle(settlements).await?;
        counts.report(&self.consumer.queue);
        Ok((counts.all, started.elapsed()))
    }

    /// All in one go; `None` when a message failed and everything was undone.
    async fn together(&self, turn: &mut dyn Turn) -> Result<Option<Vec<Settlement>>, TransportError> {
        let (deliveries, tx) = turn.split();
        let checked = self.check_all(deliveries);
        let before = tx.savepoint();
        let mut from = 0;
        while let Some(first) = checked.get(from) {
            let run = 1 + match first {
                Ok(handler) if handler.takes_many() => same(handler, &deliveries[from..], &checked[from..]),
                _ => 0,
            };
            if let Ok(handler) = first
                && self.call(handler, tx, &deliveries[from..from + run]).await.is_err()
            {
                tx.rollback_to(before).await?;
                tx.release(before);
                return Ok(None);
            }
            from += run;
        }
        tx.release(before);
        Ok(Some(checked.into_iter().map(|checked| checked.err().unwrap_or(Settlement::Done)).collect()))
    }

    /// Who handles each message, or what becomes of it without that, if all that are handled succeed.
    fn check_all<'e>(&'e self, deliveries: &[Delivery]) -> Vec<Result<&'e Arc<dyn ErasedHandler>, Settlement>> {
        let mut waiting = WaitingKeys::new(self.consumer.ordered);
        let mut checked = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let handler = self.handler(&waiting, delivery);
            if let Err(settlement) = &handler {
                waiting.note(delivery, settlement);
            }
            checked.push(handler);
        }
        checked
    }

    /// Each message within its own savepoint.
    async fn one_by_one(&self, turn: &mut dyn Turn) -> Result<Vec<Settlement>, TransportError> {
        let (deliveries, tx) = turn.split();
        let mut waiting = WaitingKeys::new(self.consumer.ordered);
        let mut settlements = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let settlement = match self.handler(&waiting, delivery) {
                Err(settlement) => {
                    self.log(delivery, &settlement);
                    settlement
                }
                Ok(handler) => {
                    let before = tx.savepoint();
                    let result = self.call(handler, tx, std::slice::from_ref(delivery)).await;
                    if result.is_err() {
                        tx.rollback_to(before).await?;
                    }
                    tx.release(before);
                    self.settlement(delivery, result)
                }
            };
            waiting.note(delivery, &settlement);
            settlements.push(settlement);
        }
        Ok(settlements)
    }

    fn handler(&self, waiting: &WaitingKeys<'_>, delivery: &Delivery) -> Result<&Arc<dyn ErasedHandler>, Settlement> {
        if waiting.waits(delivery) {
            return Err(Settlement::Behind);
        }
        check(&self.consumer, &self.queue, &self.schemas, &self.consumer.handlers, delivery, self.clock.now())
    }

    /// One message, or some of one tenant for a handler that takes many.
    async fn call(
        &self,
        handler: &Arc<dyn ErasedHandler>,
        tx: &mut Tx,
        deliveries: &[Delivery],
    ) -> Result<(), Failure> {
        let (spans, handed): (Vec<_>, Vec<_>) = deliveries
            .iter()
            .map(|delivery| {
                let span = span(&self.consumer, delivery);
                let scope = scope_of(&self.consumer, delivery, &span);
                (span, Handed { delivery, scope })
            })
            .unzip();
        let Some((first, span)) = handed.first().zip(spans.first()) else {
            return Ok(());
        };
        tx.enter(first.scope.clone());
        let started = Instant::now();
        let result = guarded(handler.handle(tx, &handed), self.consumer.timeout).instrument(span.clone()).await;
        measure::ran(&self.consumer.queue, started.elapsed(), deliveries.len());
        match result {
            // Its effects cannot be committed, whatever it says.
            Ok(()) if tx.has_failed() => {
                Err(Failure::transient("a statement failed and the handler went on without returning to a savepoint"))
            }
            result => result,
        }
    }

    /// What becomes of a message, and a line about it if it did not work.
    pub(crate) fn settlement(&self, delivery: &Delivery, result: Result<(), Failure>) -> Settlement {
        if delivery.attempt == 1 {
            self.retries.first_attempt();
        }
        let Err(failure) = result else {
            return Settlement::Done;
        };
        let settlement = self.retries.settle(&self.consumer, delivery, failure);
        self.log(delivery, &settlement);
        settlement
    }

    /// A line about a message that was not handled, whether its handler failed or never saw it.
    pub(crate) fn log(&self, delivery: &Delivery, settlement: &Settlement) {
        if matches!(settlement, Settlement::Done | Settlement::Behind) {
            return;
        }
        let envelope = &delivery.envelope;
        tracing::warn!(
            consumer = %self.consumer.name, queue = %self.consumer.queue, event_type = %envelope.event_type,
            event_id = %envelope.event_id, correlation_id = %envelope.correlation_id, tenant = %envelope.tenant_id,
            attempt = delivery.attempt, next = next_step(settlement), "message was not handled"
        );
    }

    fn measure_wait(&self, deliveries: &[Delivery]) {
        if let Some(first) = deliveries.first() {
            let waited = self.clock.now().as_microsecond() - first.published_at.as_microsecond();
            measure::waited(&self.consumer.queue, waited.max(0) as f64 / 1000.0);
        }
    }
}

/// How many messages after the first of `deliveries` go to the same handler and belong to the same tenant.
fn same(
    handler: &Arc<dyn ErasedHandler>,
    deliveries: &[Delivery],
    checked: &[Result<&Arc<dyn ErasedHandler>, Settlement>],
) -> usize {
    let tenant = &deliveries[0].envelope.tenant_id;
    let rest = deliveries[1..].iter().zip(&checked[1..]);
    rest.take_while(|(delivery, checked)| {
        delivery.envelope.tenant_id == *tenant && checked.as_ref().is_ok_and(|other| Arc::ptr_eq(other, handler))
    })
    .count()
}

/// Runs a handler within a time, and turns a panic into a failure.
pub(crate) async fn guarded<T>(
    work: impl Future<Output = Result<T, Failure>>,
    timeout: Duration,
) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::transient("the handler panicked")),
        Err(_) => Err(Failure::transient(format!("the handler took longer than {} ms", timeout.as_millis()))),
    }
}

/// The scope in which a message is handled: its tenant, its story, and itself as the cause.
pub(crate) fn scope_of(consumer: &Consumer, delivery: &Delivery, span: &tracing::Span) -> Scope {
    let envelope = &delivery.envelope;
    Scope {
        tenant: Some(envelope.tenant_id.clone()),
        actor: Actor {
            user_id: envelope.actor.as_ref().and_then(|actor| actor.user_id.clone()),
            service: Some(consumer.name.clone()),
        },
        correlation_id: envelope.correlation_id.clone(),
        causation_id: Some(envelope.event_id.to_string()),
        trace: onceward_trace::context_of(span).or_else(|| envelope.trace.as_ref().map(TraceContext::child)),
    }
}

pub(crate) fn span(consumer: &Consumer, delivery: &Delivery) -> tracing::Span {
    let envelope = &delivery.envelope;
    let span = tracing::info_span!(
        "handle",
        consumer = %consumer.name,
        queue = %consumer.queue,
        event_type = %envelope.event_type,
        event_id = %envelope.event_id,
        correlation_id = %envelope.correlation_id,
        tenant = %envelope.tenant_id,
        attempt = delivery.attempt,
        trace_id = envelope.trace.as_ref().map(TraceContext::trace_id),
    );
    if let Some(parent) = &envelope.trace {
        onceward_trace::continue_from(&span, parent);
    }
    span
}

fn next_step(settlement: &Settlement) -> String {
    match settlement {
        Settlement::Done => "done".into(),
        Settlement::Behind => "waits for its key".into(),
        Settlement::Retry { after, error } => format!("again in {} ms: {error}", after.as_millis()),
        Settlement::Wait { after, reason } => format!("waits {} ms: {reason}", after.as_millis()),
        Settlement::Dead { reason, error } => format!("dead letter ({reason}): {error}"),
    }
}

/// Results by kind, reported once the turn is committed.
#[derive(Default)]
pub(crate) struct Counts {
    all: usize,
    done: u64,
    retried: u64,
    waiting: u64,
    dead: Vec<&'static str>,
}

impl Counts {
    pub(crate) fn of<'s>(settlements: impl IntoIterator<Item = &'s Settlement>) -> Self {
        let mut counts = Self::default();
        for settlement in settlements {
            counts.all += 1;
            match settlement {
                Settlement::Done => counts.done += 1,
                Settlement::Retry { .. } => counts.retried += 1,
                Settlement::Wait { .. } | Settlement::Behind => counts.waiting += 1,
                Settlement::Dead { reason, .. } => counts.dead.push(reason.as_str()),
            }
        }
        counts
    }

    pub(crate) fn report(&self, queue: &str) {
        let dead = self.dead.len() as u64;
        for (result, count) in [("ok", self.done), ("retry", self.retried), ("wait", self.waiting), ("dead", dead)] {
            if count > 0 {
                measure::processed(queue, result, count);
            }
        }
        (0..self.retried).for_each(|_| measure::retried(queue));
        self.dead.iter().for_each(|reason| measure::died(queue, reason));
    }
}

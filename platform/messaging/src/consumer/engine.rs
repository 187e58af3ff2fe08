//! What handling has in common in both modes: the state of a consumer, settlements, spans and counts.

use super::{
    handler::HandlerTable, options::ConsumerOptions, pools::ConsumerPool, retries::Retries, slots::SlotPool,
    unknown_types::UnknownTypes,
};
use crate::{Failure, measure, spans};
use futures_util::FutureExt;
use onceward_broker::{Delivery, Settlement};
use onceward_db::Scope;
use onceward_envelope::{Actor, Clock, SchemaRegistry, TraceContext};
use onceward_topology::Queue;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// The state that a consumer's tasks share. `H` is the kind of its handlers.
pub(crate) struct ConsumerEngine<H> {
    pub options: ConsumerOptions,
    pub handlers: HandlerTable<H>,
    pub queue: Queue,
    pub schemas: SchemaRegistry,
    pub clock: Arc<dyn Clock>,
    pub retries: Retries,
    pub unknown_types: UnknownTypes,
    /// The worker pool that the consumer's queue belongs to.
    pub pool: Option<ConsumerPool>,
}

impl<H> ConsumerEngine<H> {
    /// Returns how many turns or messages are handled at the same time at most; `None` if the slots of a pool decide, whose
    /// size an operator may set above what the code declares.
    pub(crate) fn concurrency(&self) -> Option<usize> {
        self.pool.is_none().then_some(self.options.concurrency)
    }

    /// Returns the pool among the slots of the process.
    pub(crate) fn slot_pool(&self) -> SlotPool {
        self.pool.as_ref().map_or(SlotPool::NONE, |pool| pool.slots)
    }

    /// Reports settlements that were committed, and the time that it took to handle them.
    pub(crate) fn report(&self, counts: &SettlementCounts, busy: Duration) {
        counts.report(&self.options.queue);
        if let Some(pool) = &self.pool {
            pool.activity.record(counts.done, counts.retried + counts.dead.len() as u64, busy);
        }
    }

    /// Returns the settlement of a message and logs it if handling failed.
    pub(crate) fn settlement(&self, delivery: &Delivery, result: Result<(), Failure>) -> Settlement {
        if delivery.attempt == 1 {
            self.retries.record_first_attempts(1);
        }
        let Err(failure) = result else {
            return Settlement::Done;
        };
        let settlement = self.retries.settle(&self.options, delivery, failure);
        self.log(delivery, &settlement);
        settlement
    }

    /// Logs a message that was not handled, whether its handler failed or was never called.
    pub(crate) fn log(&self, delivery: &Delivery, settlement: &Settlement) {
        if matches!(settlement, Settlement::Done | Settlement::Behind) {
            return;
        }
        let envelope = &delivery.envelope;
        if matches!(settlement, Settlement::Unknown { .. }) && !self.unknown_types.is_log_due(&envelope.event_type) {
            return;
        }
        tracing::warn!(
            consumer = %self.options.name, queue = %self.options.queue, event_type = %envelope.event_type,
            event_id = %envelope.event_id, correlation_id = %envelope.correlation_id, tenant = %envelope.tenant_id,
            attempt = delivery.attempt, next = next_step(settlement), "message was not handled"
        );
    }
}

fn next_step(settlement: &Settlement) -> String {
    match settlement {
        Settlement::Done => "done".into(),
        Settlement::Behind => "waits behind an earlier message of its key".into(),
        Settlement::Retry { after, error } => format!("retried in {} ms: {error}", after.as_millis()),
        Settlement::Wait { after, reason } => format!("waits {} ms: {reason}", after.as_millis()),
        Settlement::Unknown { reason, .. } => format!(
            "waits with its key for a worker that knows it: {reason}; `onceward queues` counts such messages, and this line is \
             logged once in ten minutes per type"
        ),
        Settlement::Dead { reason, error } => format!("dead letter ({reason}): {error}"),
    }
}

/// Runs a handler with a time limit and turns a panic into a failure.
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

/// Returns the scope in which a message is handled: its tenant, its story, and the message itself as the cause.
pub(crate) fn scope_of(options: &ConsumerOptions, delivery: &Delivery, span: &tracing::Span) -> Scope {
    let envelope = &delivery.envelope;
    Scope {
        tenant: Some(envelope.tenant_id.clone()),
        actor: Actor {
            user_id: envelope.actor.as_ref().and_then(|actor| actor.user_id.clone()),
            service: Some(options.name.clone()),
        },
        correlation_id: envelope.correlation_id.clone(),
        causation_id: Some(envelope.event_id.to_string()),
        trace: spans::context_of(span)
            .map(|trace| trace.with_state(envelope.trace.as_ref().and_then(TraceContext::tracestate)))
            .or_else(|| envelope.trace.as_ref().map(TraceContext::child)),
    }
}

/// Creates the span of one message, in the message's own trace.
pub(crate) fn message_span(options: &ConsumerOptions, delivery: &Delivery) -> tracing::Span {
    let envelope = &delivery.envelope;
    let span = tracing::info_span!(
        "handle",
        consumer = %options.name,
        queue = %options.queue,
        event_type = %envelope.event_type,
        event_id = %envelope.event_id,
        correlation_id = %envelope.correlation_id,
        tenant = %envelope.tenant_id,
        attempt = delivery.attempt,
        trace_id = envelope.trace.as_ref().map(TraceContext::trace_id),
    );
    if let Some(parent) = &envelope.trace {
        spans::continue_from(&span, parent);
    }
    span
}

/// Creates a span for messages that are handled together. It belongs to no message's trace and links to theirs.
pub(crate) fn batch_span(
    options: &ConsumerOptions,
    messages: usize,
    traces: impl Iterator<Item = TraceContext>,
) -> tracing::Span {
    let span =
        tracing::info_span!(parent: None, "handle batch", consumer = %options.name, queue = %options.queue, messages);
    spans::link_to(&span, traces);
    span
}

/// Settlements by kind, reported once they are committed.
#[derive(Default)]
pub(crate) struct SettlementCounts {
    pub all: usize,
    done: u64,
    retried: u64,
    waiting: u64,
    dead: Vec<&'static str>,
}

impl SettlementCounts {
    pub(crate) fn of<'s>(settlements: impl IntoIterator<Item = &'s Settlement>) -> Self {
        let mut counts = Self::default();
        for settlement in settlements {
            counts.all += 1;
            match settlement {
                Settlement::Done => counts.done += 1,
                Settlement::Retry { .. } => counts.retried += 1,
                Settlement::Wait { .. } | Settlement::Unknown { .. } | Settlement::Behind => counts.waiting += 1,
                Settlement::Dead { reason, .. } => counts.dead.push(reason.as_str()),
            }
        }
        counts
    }

    fn report(&self, queue: &str) {
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

//! Handling messages in the transaction that settles them, many per commit.
//!
//! A turn is first handled as a whole. If any message fails, the whole turn is undone and handled again with a
//! savepoint around each message, so that one bad message costs the others only time.

use super::{
    delivery_check::check,
    engine::{ConsumerEngine, SettlementCounts, batch_span, guarded, message_span, scope_of},
    handler::{ErasedHandler, HandlerInput},
    options::ConsumerOptions,
};
use crate::{Failure, measure, outbox};
use onceward_broker::{Delivery, Settlement};
use onceward_db::Tx;
use onceward_message_log::{BusError, QueueTurn};
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::Instrument;

type SharedHandler = Arc<dyn ErasedHandler>;

/// The engine of a transactional consumer.
pub(crate) type TransactionalEngine = ConsumerEngine<SharedHandler>;

/// Keys with a waiting message; their later messages wait too.
struct WaitingKeys<'d> {
    ordered: bool,
    /// Whether a dead letter makes its key wait.
    holds_keys: bool,
    keys: HashSet<(&'d str, &'d str)>,
}

impl<'d> WaitingKeys<'d> {
    fn new(options: &ConsumerOptions) -> Self {
        Self { ordered: options.ordered, holds_keys: options.holds_keys, keys: HashSet::new() }
    }

    fn key(delivery: &Delivery) -> Option<(&str, &str)> {
        Some((delivery.queue_tenant.as_str(), delivery.ordering_key.as_deref()?))
    }

    fn contains_key_of(&self, delivery: &Delivery) -> bool {
        !self.keys.is_empty() && Self::key(delivery).is_some_and(|key| self.keys.contains(&key))
    }

    fn record(&mut self, delivery: &'d Delivery, settlement: &Settlement) {
        let waits = match settlement {
            Settlement::Retry { .. } | Settlement::Wait { .. } | Settlement::Unknown { .. } | Settlement::Behind => {
                true
            }
            Settlement::Dead { .. } => self.holds_keys,
            Settlement::Done => false,
        };
        if self.ordered && waits {
            self.keys.extend(Self::key(delivery));
        }
    }
}

impl TransactionalEngine {
    /// Handles and settles a turn. Returns the number of messages and the time it took.
    pub(crate) async fn run_turn(&self, mut turn: QueueTurn) -> Result<(usize, Duration), BusError> {
        let started = Instant::now();
        self.measure_wait(turn.deliveries());
        let settlements = match self.handle_together(&mut turn).await? {
            Some(settlements) => {
                let settled = turn.deliveries().iter().zip(&settlements);
                let mut first_attempts = 0;
                for (delivery, settlement) in settled {
                    self.log(delivery, settlement);
                    first_attempts += usize::from(delivery.attempt == 1 && *settlement == Settlement::Done);
                }
                self.retries.record_first_attempts(first_attempts);
                settlements
            }
            None => self.handle_one_by_one(&mut turn).await?,
        };
        let (deliveries, tx) = turn.split();
        for (delivery, settlement) in deliveries.iter().zip(&settlements) {
            if let Settlement::Dead { reason, .. } = settlement {
                outbox::copy_dead_letter(tx, delivery, &self.queue, *reason).await?;
            }
        }
        let counts = SettlementCounts::of(&settlements);
        turn.settle(&settlements).await?;
        let elapsed = started.elapsed();
        self.report(&counts, elapsed);
        Ok((counts.all, elapsed))
    }

    /// Handles the whole turn at once; returns `None` if a message failed and everything was undone.
    async fn handle_together(&self, turn: &mut QueueTurn) -> Result<Option<Vec<Settlement>>, BusError> {
        let (deliveries, tx) = turn.split();
        let checked = self.check_all(deliveries);
        let before = tx.savepoint();
        let mut from = 0;
        while let Some(first) = checked.get(from) {
            let run = 1 + match first {
                Ok(handler) if handler.takes_many() => same_handler(handler, &deliveries[from..], &checked[from..]),
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

    /// Returns each message's handler, or its settlement if it is not handled, assuming that all handlers succeed.
    fn check_all(&self, deliveries: &[Delivery]) -> Vec<Result<&SharedHandler, Settlement>> {
        let mut waiting = WaitingKeys::new(&self.options);
        let mut checked = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let handler = self.find_handler(&waiting, delivery);
            if let Err(settlement) = &handler {
                waiting.record(delivery, settlement);
            }
            checked.push(handler);
        }
        checked
    }

    /// Handles each message within its own savepoint.
    async fn handle_one_by_one(&self, turn: &mut QueueTurn) -> Result<Vec<Settlement>, BusError> {
        let (deliveries, tx) = turn.split();
        let mut waiting = WaitingKeys::new(&self.options);
        let mut settlements = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let settlement = match self.find_handler(&waiting, delivery) {
                Err(settlement) => {
                    self.log(delivery, &settlement);
                    settlement
                }
                Ok(handler) => {
                    let before = tx.savepoint();
                    let mut result = self.call(handler, tx, std::slice::from_ref(delivery)).await;
                    if result.is_err() {
                        // A full disk does not count as an attempt, however the handler mapped the error: the message
                        // waits.
                        if let Some(outage) = tx.outage() {
                            result = Err(outage.into());
                        }
                        tx.rollback_to(before).await?;
                    }
                    tx.release(before);
                    self.settlement(delivery, result)
                }
            };
            waiting.record(delivery, &settlement);
            settlements.push(settlement);
        }
        Ok(settlements)
    }

    fn find_handler(&self, waiting: &WaitingKeys<'_>, delivery: &Delivery) -> Result<&SharedHandler, Settlement> {
        if waiting.contains_key_of(delivery) {
            return Err(Settlement::Behind);
        }
        check(self, delivery, self.clock.now())
    }

    /// Calls the handler with one message, or with several of one tenant if it handles batches.
    async fn call(&self, handler: &SharedHandler, tx: &mut Tx, deliveries: &[Delivery]) -> Result<(), Failure> {
        let (spans, inputs): (Vec<_>, Vec<_>) = deliveries
            .iter()
            .map(|delivery| {
                let span = message_span(&self.options, delivery);
                let scope = scope_of(&self.options, delivery, &span);
                (span.clone(), HandlerInput { delivery, scope, span })
            })
            .unzip();
        let Some((first, span)) = inputs.first().zip(spans.first()) else {
            return Ok(());
        };
        tx.enter(first.scope.clone());
        // The spans of a batch's messages last as long as the batch; the shared work has its own span.
        let span = match deliveries.len() {
            1 => span.clone(),
            messages => batch_span(&self.options, messages, inputs.iter().filter_map(|one| one.scope.trace.clone())),
        };
        let started = Instant::now();
        let result = guarded(handler.handle(tx, &inputs), self.options.timeout).instrument(span).await;
        measure::ran(&self.options.queue, started.elapsed(), deliveries.len());
        match result {
            // Its effects cannot be committed, even if it returned success.
            Ok(()) if tx.has_failed() => {
                Err(Failure::transient("a statement failed and the handler continued without returning to a savepoint"))
            }
            result => result,
        }
    }

    fn measure_wait(&self, deliveries: &[Delivery]) {
        measure::waited(&self.options.queue, deliveries.iter().map(|one| one.published_at), self.clock.now());
    }
}

/// Counts the messages after the first of `deliveries` that have the same handler and the same tenant.
fn same_handler(
    handler: &SharedHandler,
    deliveries: &[Delivery],
    checked: &[Result<&SharedHandler, Settlement>],
) -> usize {
    let tenant = &deliveries[0].envelope.tenant_id;
    let rest = deliveries[1..].iter().zip(&checked[1..]);
    rest.take_while(|(delivery, checked)| {
        delivery.envelope.tenant_id == *tenant && checked.as_ref().is_ok_and(|other| Arc::ptr_eq(other, handler))
    })
    .count()
}

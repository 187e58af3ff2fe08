//! Batches respondents' steps: steps of one tenant that arrive while others are in flight share a transaction.
//!
//! ```text
//! request ── joins its tenant's queue ─────────────── waits for its response
//!               └ a single step runs at once;    ▲
//!                 otherwise, a batch that ends   │ after the commit
//!                 takes the waiting steps ─ batch ┘
//! ```
//!
//! No step waits for a batch to fill up: a batch contains what was queued while the batches before it were in flight. A
//! commit and a bucket's lock are then paid once for all of them, and an idle service is as fast as without batching. A
//! batch runs in its own task, so that a cancelled request does not cancel the steps of others.
//!
//! `queue` is the queue, without I/O. `batch` is the transaction: lock all, decide each, write all, publish for each.
//!
//! Invariant: a session has at most one step in flight per process, and its steps are executed in the order of their
//! arrival.

mod batch;
mod queue;

use super::{SurveyContext, commands::SessionStep};
use crate::{Settings, SurveyError};
use futures_util::FutureExt;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use onceward::{Db, DbError, Scope, Supervisor, TenantId};
use parking_lot::Mutex;
use queue::StepQueue;
use serde_json::Value;
use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The time limit of a batch; by then, its requests have been answered with a request to retry.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The task name under which batches are supervised.
const TASK: &str = "survey-steps";
const STEPS: &str = "surveys_steps_total";
const BATCHES: &str = "surveys_step_groups_total";
const WAITING: &str = "surveys_steps_waiting";

pub(crate) fn describe_metrics() {
    describe_counter!(STEPS, "Steps of respondents that were committed");
    describe_counter!(BATCHES, "Committed batches of respondents' steps");
    describe_gauge!(WAITING, "Steps of respondents that wait in the queue");
}

/// The step queues of all tenants that have one.
pub(crate) struct StepBatcher {
    queues: Mutex<HashMap<TenantId, StepQueue<QueuedStep>>>,
    waiting_max: usize,
}

/// A queued step and the channel for its response.
struct QueuedStep {
    scope: Scope,
    step: SessionStep,
    response: oneshot::Sender<Result<Value, SurveyError>>,
}

/// Steps that share a transaction, each with its session.
type Batch = Vec<(Uuid, QueuedStep)>;

/// Queues a step and returns its response once it is committed. The request's own timeout limits how long that may
/// take. Fails with [`SurveyError::TooManyWaitingSteps`] if the tenant's queue is full.
pub(super) async fn execute(
    context: &Arc<SurveyContext>,
    db: &Db,
    supervisor: &Supervisor,
    scope: Scope,
    session_id: Uuid,
    step: SessionStep,
) -> Result<Value, SurveyError> {
    let tenant = scope.tenant.clone().ok_or(SurveyError::NotFound("tenant"))?;
    let (response, receiver) = oneshot::channel();
    if let Some(first) = context.step_batcher.push(&tenant, session_id, QueuedStep { scope, step, response })? {
        let slot = BatchSlot::new(context.clone(), tenant, &first);
        tokio::spawn(run_supervised(slot, first, db.clone(), supervisor.clone()));
    }
    // No response was sent: the batch panicked or was stopped, and its commit may have been in progress.
    receiver.await.unwrap_or(Err(SurveyError::Db(DbError::OutcomeUnknown)))
}

/// Runs batches until no steps are waiting. If it panics between two batches, it is restarted with the steps waiting
/// then.
async fn run_supervised(slot: BatchSlot, first: Batch, db: Db, supervisor: Supervisor) {
    let (context, tenant) = (slot.context.clone(), slot.tenant.clone());
    let mut started = Some((slot, first));
    let start = || {
        let batch = context.step_batcher.with_queue(&tenant, StepQueue::start_batch)?;
        Some((BatchSlot::new(context.clone(), tenant.clone(), &batch), batch))
    };
    let execute = |batch| batch::execute(&context, &db, batch);
    let work = || {
        let started = started.take().or_else(start);
        let supervisor = &supervisor;
        async move {
            if let Some((slot, first)) = started {
                run_batches(slot, first, supervisor, execute).await;
            }
            Ok(())
        }
    };
    supervisor.run_to_end(TASK, &CancellationToken::new(), work).await;
}

/// Runs one batch after the other through `execute`, until no steps are waiting.
async fn run_batches<Fut: Future<Output = ()>>(
    mut slot: BatchSlot,
    first: Batch,
    supervisor: &Supervisor,
    execute: impl Fn(Batch) -> Fut,
) {
    let mut next = Some(first);
    while let Some(batch) = next {
        let executing = AssertUnwindSafe(async { execute(batch).await }).catch_unwind();
        match tokio::time::timeout(BATCH_TIMEOUT, executing).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => supervisor.failed(TASK, "a batch of steps panicked; its requests may be repeated"),
            Err(_) => tracing::warn!(tenant = %slot.tenant, "a batch of steps exceeded its time limit and was stopped"),
        }
        next = slot.next_batch();
    }
}

/// Counts the steps of one commit.
fn count_commit(steps: usize) {
    counter!(STEPS).increment(steps as u64);
    counter!(BATCHES).increment(1);
}

impl StepBatcher {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { queues: Mutex::default(), waiting_max: settings.steps_waiting_max.max(1) }
    }

    /// Queues a step. Returns the batch to run now, if one is ready.
    fn push(&self, tenant: &TenantId, session_id: Uuid, step: QueuedStep) -> Result<Option<Batch>, SurveyError> {
        self.with_queue(tenant, |queue| {
            queue.push(session_id, step, self.waiting_max).map_err(|_| SurveyError::TooManyWaitingSteps)?;
            Ok(queue.start_batch())
        })
    }

    /// Changes a tenant's queue under the lock. A queue exists only while steps are waiting or in flight.
    fn with_queue<T>(&self, tenant: &TenantId, change: impl FnOnce(&mut StepQueue<QueuedStep>) -> T) -> T {
        let mut queues = self.queues.lock();
        let queue = queues.entry(tenant.clone()).or_default();
        let before = queue.len();
        let changed = change(queue);
        gauge!(WAITING).increment(queue.len() as f64 - before as f64);
        if queue.is_idle() {
            queues.remove(tenant);
        }
        changed
    }
}

impl queue::Cancellable for QueuedStep {
    fn is_cancelled(&self) -> bool {
        self.response.is_closed()
    }
}

/// A task's right to run batches of one tenant. If it is dropped early for any reason, it frees its slot in the queue.
struct BatchSlot {
    context: Arc<SurveyContext>,
    tenant: TenantId,
    /// The sessions whose steps are in flight.
    sessions: Vec<Uuid>,
    released: bool,
}

impl BatchSlot {
    fn new(context: Arc<SurveyContext>, tenant: TenantId, first: &Batch) -> Self {
        Self { context, tenant, sessions: session_ids(first), released: false }
    }

    /// Ends the current batch and returns the next one, or `None` if no step is ready.
    fn next_batch(&mut self) -> Option<Batch> {
        let finished = std::mem::take(&mut self.sessions);
        let next = self.context.step_batcher.with_queue(&self.tenant, |queue| queue.start_next_batch(&finished));
        match &next {
            Some(batch) => self.sessions = session_ids(batch),
            None => self.released = true,
        }
        next
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        if !self.released {
            self.context.step_batcher.with_queue(&self.tenant, |queue| queue.end_batch(&self.sessions));
        }
    }
}

fn session_ids(batch: &Batch) -> Vec<Uuid> {
    batch.iter().map(|(session_id, _)| *session_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Queues a step for its tenant. Returns the batch, if any, and the receiver of the response.
    fn push(
        context: &SurveyContext,
        tenant: &TenantId,
    ) -> (Option<Batch>, oneshot::Receiver<Result<Value, SurveyError>>) {
        let (response, receiver) = oneshot::channel();
        let queued = QueuedStep { scope: Scope::for_tenant(tenant.clone()), step: SessionStep::Complete, response };
        (context.step_batcher.push(tenant, Uuid::nil(), queued).unwrap(), receiver)
    }

    #[tokio::test]
    async fn a_batch_that_panics_is_reported_and_the_steps_behind_it_run() {
        let (context, tenant) = (Arc::new(SurveyContext::new(Arc::default())), TenantId::new("acme").unwrap());
        let (first, panicked) = push(&context, &tenant);
        let (none, responded) = push(&context, &tenant);
        assert!(none.is_none(), "a session has one step in flight");
        let (supervisor, batches) = (Supervisor::new(), AtomicU32::new(0));
        let execute = |batch: Batch| {
            let number = batches.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(number > 0, "panics on purpose");
                for (_, queued) in batch {
                    queued.response.send(Ok(Value::Null)).unwrap();
                }
            }
        };
        let first = first.expect("a single step runs at once");
        run_batches(BatchSlot::new(context.clone(), tenant, &first), first, &supervisor, execute).await;
        assert!(panicked.await.is_err(), "the request learns that the outcome is unknown");
        assert!(responded.await.is_ok_and(|response| response.is_ok()));
        assert!(supervisor.check().is_err_and(|failing| failing.contains(TASK)));
        assert!(context.step_batcher.queues.lock().is_empty());
    }

    #[tokio::test]
    async fn a_dropped_batch_fails_its_requests_and_leaves_no_queue_behind() {
        let context = Arc::new(SurveyContext::new(Arc::default()));
        let tenant = TenantId::new("acme").unwrap();
        let queues = || context.step_batcher.queues.lock().len();
        let (first, receiver) = push(&context, &tenant);
        let first = first.expect("a single step runs at once");
        let slot = BatchSlot::new(context.clone(), tenant, &first);
        assert_eq!(queues(), 1);
        drop((slot, first));
        assert!(receiver.await.is_err());
        assert_eq!(queues(), 0);
    }
}

//! Records the results of leased calls. Results that wait at the same time share one commit, so that a consumer is not
//! limited to one commit per message where something orders commits, as the audit chain of a tenant does.
//!
//! There is no timer: a result that finds nobody writing is written at once, and those that arrive meanwhile are written
//! together after it. If anything fails, each result is written again in a transaction of its own.

use super::{
    engine::guarded,
    handler::{ErasedLeasedHandler, LeasedWork},
    leased::LeasedEngine,
};
use crate::Failure;
use onceward_broker::Settlement;
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_message_log::{BusError, LeasedMessage, QueueReader};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::oneshot;
use tracing::Instrument;

/// The most results of one commit.
const MAX_BATCH: usize = 64;

/// A call that has succeeded, and whose result is to be recorded.
pub(super) struct FinishedCall {
    pub leased: Arc<LeasedMessage>,
    pub handler: Arc<dyn ErasedLeasedHandler>,
    pub work: LeasedWork,
    pub scope: Scope,
    pub span: tracing::Span,
}

/// What became of a result.
pub(super) enum RecordOutcome {
    /// It is committed, and the message is settled.
    Recorded,
    /// Another worker has the lease: nothing was written.
    LeaseLost,
    /// The handler could not record it: nothing was written.
    Failed(Failure),
}

type Answer = Result<RecordOutcome, BusError>;

fn writer_is_gone() -> BusError {
    DbError::Unavailable("the task that recorded this result was stopped".to_owned()).into()
}

struct WaitingResult {
    call: FinishedCall,
    answer: oneshot::Sender<Answer>,
}

/// Writes the results of one consumer. It holds no more of them than the consumer has calls in flight.
pub(super) struct ResultRecorder {
    engine: Arc<LeasedEngine>,
    reader: Arc<QueueReader>,
    db: Db,
    waiting: Mutex<VecDeque<WaitingResult>>,
    /// Held by the task that writes.
    writer: tokio::sync::Mutex<()>,
}

impl ResultRecorder {
    pub(super) fn new(engine: Arc<LeasedEngine>, reader: Arc<QueueReader>, db: Db) -> Self {
        Self { engine, reader, db, waiting: Mutex::default(), writer: tokio::sync::Mutex::new(()) }
    }

    /// Settles the message and records the result in one commit, which it may share with others. Fails if the database
    /// cannot be reached; the result may have been committed then.
    pub(super) async fn record(&self, call: FinishedCall) -> Answer {
        let (sender, mut answer) = oneshot::channel();
        self.waiting.lock().push_back(WaitingResult { call, answer: sender });
        loop {
            // A writer answers everything that it took before it leaves, so whoever writes next and finds its own result
            // gone has its answer.
            let _writer = tokio::select! {
                biased;
                answered = &mut answer => return answered.unwrap_or_else(|_| Err(writer_is_gone())),
                writer = self.writer.lock() => writer,
            };
            let batch: Vec<WaitingResult> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(MAX_BATCH);
                waiting.drain(..count).collect()
            };
            self.write(batch).await;
        }
    }

    /// Writes the results and answers those who wait for them.
    async fn write(&self, mut batch: Vec<WaitingResult>) {
        // Two processes that settle messages of one lane take their locks in the same order.
        batch.sort_by_key(|waiting| waiting.call.leased.lease.id);
        if batch.len() > 1
            && let Some(outcomes) = self.write_together(&batch).await
        {
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                let _ = waiting.answer.send(Ok(outcome));
            }
            return;
        }
        for WaitingResult { call, answer } in batch {
            let _ = answer.send(self.write_alone(&call).await);
        }
    }

    /// Returns `None` if anything failed; then nothing was written, or it is not known.
    async fn write_together(&self, batch: &[WaitingResult]) -> Option<Vec<RecordOutcome>> {
        let mut tx = self.db.begin(batch.first()?.call.scope.clone()).await.ok()?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for WaitingResult { call, .. } in batch {
            tx.enter(call.scope.clone());
            match self.settle_and_record(&mut tx, call).await {
                Ok(RecordOutcome::Failed(_)) | Err(_) => {
                    let _ = tx.rollback().await;
                    return None;
                }
                Ok(outcome) => outcomes.push(outcome),
            }
        }
        tx.commit().await.ok()?;
        Some(outcomes)
    }

    async fn write_alone(&self, call: &FinishedCall) -> Answer {
        let mut tx = self.db.begin(call.scope.clone()).await?;
        let outcome = self.settle_and_record(&mut tx, call).await?;
        match outcome {
            RecordOutcome::Recorded => tx.commit().await?,
            RecordOutcome::LeaseLost | RecordOutcome::Failed(_) => tx.rollback().await?,
        }
        Ok(outcome)
    }

    async fn settle_and_record(&self, tx: &mut Tx, call: &FinishedCall) -> Answer {
        if !self.reader.settle_lease(tx, &call.leased, Settlement::Done).await? {
            return Ok(RecordOutcome::LeaseLost);
        }
        let record = call.handler.record(tx, &call.leased.delivery, &call.work);
        let recorded = guarded(record, self.engine.options.timeout).instrument(call.span.clone()).await;
        Ok(match recorded {
            Ok(()) if tx.has_failed() => RecordOutcome::Failed(Failure::transient(
                "a statement failed and the handler continued without returning to a savepoint",
            )),
            Ok(()) => RecordOutcome::Recorded,
            // A full disk does not count as an attempt, however the handler mapped the error.
            Err(failure) => RecordOutcome::Failed(tx.outage().map_or(failure, Failure::from)),
        })
    }
}

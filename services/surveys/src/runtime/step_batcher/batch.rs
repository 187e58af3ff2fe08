//! One transaction for the steps of several sessions: lock all, decide each, write all, publish for each.
//!
//! Errors in a step are found before anything is written, and only that step receives them. When the database rejects
//! a batch, the error does not name the step that caused it: every step is then executed alone, and only that one
//! fails.

use super::{Batch, QueuedStep, count_commit};
use crate::{
    SurveyError,
    runtime::{
        SurveyContext,
        commands::{StepDecision, StepOutcome},
        store::{self, SessionLookup, StepWrite},
        view,
    },
};
use onceward::{Db, DbError, Tx};
use serde_json::Value;
use std::{iter, slice};
use uuid::Uuid;

type StepResponse = Result<Value, SurveyError>;

/// Executes the steps of the batch and responds to every request.
pub(super) async fn execute(context: &SurveyContext, db: &Db, batch: Batch) {
    match execute_together(context, db, &batch).await {
        Ok(responses) => send_responses(batch, responses),
        Err(SurveyError::Db(error)) if error.is_unavailable() => {
            send_responses(batch, iter::repeat_with(|| Err(clone_connection_error(&error).into())));
        }
        Err(rejected) if batch.len() == 1 => send_responses(batch, [Err(rejected)]),
        Err(rejected) => {
            tracing::warn!(error = %rejected, steps = batch.len(), "a batch of steps was rejected; executing each step alone");
            for step in batch {
                let responses = execute_together(context, db, slice::from_ref(&step)).await;
                send_responses([step], responses.unwrap_or_else(|error| vec![Err(error)]));
            }
        }
    }
}

/// Executes the batch in one transaction. Returns the responses in the order of the batch, once they are committed.
async fn execute_together(
    context: &SurveyContext,
    db: &Db,
    batch: &[(Uuid, QueuedStep)],
) -> Result<Vec<StepResponse>, SurveyError> {
    let Some((_, first)) = batch.first() else {
        return Ok(Vec::new());
    };
    let mut tx = db.begin(first.scope.clone()).await?;
    let (mut responses, decisions) = decide(&tx, context, batch).await?;
    if decisions.is_empty() {
        tx.rollback().await?;
        return Ok(responses);
    }
    let writes: Vec<StepWrite<'_>> = decisions.iter().map(|(_, decision)| decision.to_write()).collect();
    let steps = writes.len();
    let places = store::write_steps(&tx, &writes, &view::ending(view::QUOTA_FULL), &context.settings).await?;
    for ((index, decision), places) in decisions.into_iter().zip(places) {
        tx.enter(batch[index].1.scope.clone());
        responses[index] = Ok(decision.publish(&mut tx, &places).await?);
    }
    tx.commit().await?;
    count_commit(steps);
    Ok(responses)
}

/// Locks the sessions and decides every step. Returns the responses that are already known, and the decisions to be
/// written for the other steps, each with its index in the batch.
async fn decide(
    tx: &Tx,
    context: &SurveyContext,
    batch: &[(Uuid, QueuedStep)],
) -> Result<(Vec<StepResponse>, Vec<(usize, StepDecision)>), SurveyError> {
    let lookups: Vec<SessionLookup<'_>> = batch
        .iter()
        .map(|(session_id, queued)| SessionLookup { session_id: *session_id, page_id: queued.step.page_id() })
        .collect();
    let (mut responses, mut decisions) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
    let sessions = store::lock_sessions(tx, &lookups).await?;
    for (index, (session, (_, queued))) in sessions.into_iter().zip(batch).enumerate() {
        let outcome = match session {
            Ok(session) => queued.step.decide(tx, context, session).await,
            Err(error) => Err(error),
        };
        match outcome {
            // The transaction has failed, so the error affects the whole batch.
            Err(error) if tx.has_failed() => return Err(error),
            Err(error) => responses.push(Err(error)),
            Ok(StepOutcome::Replay(response)) => responses.push(Ok(response)),
            Ok(StepOutcome::Apply(decision)) => {
                responses.push(Ok(Value::Null));
                decisions.push((index, *decision));
            }
        }
    }
    Ok((responses, decisions))
}

fn send_responses(
    batch: impl IntoIterator<Item = (Uuid, QueuedStep)>,
    responses: impl IntoIterator<Item = StepResponse>,
) {
    for ((_, queued), response) in batch.into_iter().zip(responses) {
        // The client may have disconnected.
        let _ = queued.response.send(response);
    }
}

/// Copies an error of the connection, so that every request of the batch receives it.
fn clone_connection_error(error: &DbError) -> DbError {
    match error {
        DbError::Busy { pool_size, waited_ms } => DbError::Busy { pool_size: *pool_size, waited_ms: *waited_ms },
        DbError::OutcomeUnknown => DbError::OutcomeUnknown,
        DbError::Unavailable(reason) => DbError::Unavailable(reason.clone()),
        other => DbError::Unavailable(other.to_string()),
    }
}

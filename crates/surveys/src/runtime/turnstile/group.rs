//! One transaction for the steps of several sessions: lock all, decide each, write all, tell each.
//!
//! What is wrong with a step is found before anything is written, and only that step hears it. When the database refuses, it
//! does not say whose fault that is: then everybody goes alone, and who is to blame fails alone.

use super::{Group, Waiting};
use crate::{
    SurveyError,
    runtime::{
        Desk,
        commands::{Decision, Verdict},
        store::{self, Asked, Written},
        view,
    },
};
use onceward::{Db, DbError, Tx};
use serde_json::Value;
use std::{iter, slice};
use uuid::Uuid;

type Answer = Result<Value, SurveyError>;

/// Answers everybody.
pub(super) async fn go_through(desk: &Desk, db: &Db, group: Group) {
    match together(desk, db, &group).await {
        Ok(answers) => hand_out(group, answers),
        Err(SurveyError::Db(error)) if error.is_unavailable() => {
            hand_out(group, iter::repeat_with(|| Err(same(&error).into())));
        }
        Err(refused) if group.len() == 1 => hand_out(group, [Err(refused)]),
        Err(refused) => {
            tracing::warn!(error = %refused, steps = group.len(), "a group of steps was refused: each goes alone");
            for one in group {
                let answers = together(desk, db, slice::from_ref(&one)).await;
                hand_out([one], answers.unwrap_or_else(|error| vec![Err(error)]));
            }
        }
    }
}

/// The answers in the order of the group, once they are committed.
async fn together(desk: &Desk, db: &Db, group: &[(Uuid, Waiting)]) -> Result<Vec<Answer>, SurveyError> {
    let Some((_, first)) = group.first() else {
        return Ok(Vec::new());
    };
    let mut tx = db.begin(first.scope.clone()).await?;
    let (mut answers, decided) = decide(&tx, desk, group).await?;
    if decided.is_empty() {
        tx.rollback().await?;
        return Ok(answers);
    }
    let written: Vec<Written<'_>> = decided.iter().map(|(_, decision)| decision.written()).collect();
    let places = store::steps(&tx, &written, &view::ending(view::FULL), &desk.settings).await?;
    for ((at, decision), places) in decided.into_iter().zip(places) {
        tx.enter(group[at].1.scope.clone());
        answers[at] = Ok(decision.tell(&mut tx, &places).await?);
    }
    tx.commit().await?;
    Ok(answers)
}

/// Who knows the answer already, and what is to be written for the others.
async fn decide(
    tx: &Tx,
    desk: &Desk,
    group: &[(Uuid, Waiting)],
) -> Result<(Vec<Answer>, Vec<(usize, Decision)>), SurveyError> {
    let asked: Vec<Asked<'_>> =
        group.iter().map(|(session_id, one)| Asked { session_id: *session_id, page_id: one.step.page_id() }).collect();
    let (mut answers, mut decided) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    let sessions = store::open_sessions(tx, &asked).await?;
    for (at, (session, (_, one))) in sessions.into_iter().zip(group).enumerate() {
        let verdict = match session {
            Ok(session) => one.step.decide(tx, desk, session).await,
            Err(error) => Err(error),
        };
        match verdict {
            // It is not only this step's any more.
            Err(error) if tx.has_failed() => return Err(error),
            Err(error) => answers.push(Err(error)),
            Ok(Verdict::Known(answer)) => answers.push(Ok(answer)),
            Ok(Verdict::Decided(decision)) => {
                answers.push(Ok(Value::Null));
                decided.push((at, *decision));
            }
        }
    }
    Ok((answers, decided))
}

fn hand_out(group: impl IntoIterator<Item = (Uuid, Waiting)>, answers: impl IntoIterator<Item = Answer>) {
    for ((_, waiting), answer) in group.into_iter().zip(answers) {
        // Who asked may be gone.
        let _ = waiting.answer.send(answer);
    }
}

/// Everybody hears what has happened to the one connection.
fn same(error: &DbError) -> DbError {
    match error {
        DbError::Busy { pool_size, waited_ms } => DbError::Busy { pool_size: *pool_size, waited_ms: *waited_ms },
        DbError::OutcomeUnknown => DbError::OutcomeUnknown,
        DbError::Unavailable(what) => DbError::Unavailable(what.clone()),
        other => DbError::Unavailable(other.to_string()),
    }
}

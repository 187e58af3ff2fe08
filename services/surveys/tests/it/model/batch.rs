//! Steps of several sessions in one call of the gate: executed and reported as if they had come one after the other.

use super::{Model, ModelSession};
use crate::support::*;
use onceward::{Tx, envelope};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// One respondent's action.
#[derive(Debug, Clone, Copy)]
pub(super) enum StepAction {
    Answer { woman: bool, north: bool },
    Complete,
    Leave,
}

pub(super) fn step_actions() -> impl Strategy<Value = StepAction> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(woman, north)| StepAction::Answer { woman, north }),
        2 => Just(StepAction::Complete),
        1 => Just(StepAction::Leave),
    ]
}

/// A change of places: the step's number, the bucket's number, the kind, and the resulting reserved, filled, target and
/// closed. A step that found a bucket full has one row without a bucket.
type GateRow = (i32, Option<usize>, String, i64, i64, i64, bool);

/// The array arguments of the gate.
#[derive(Default)]
struct GateCall {
    sessions: Vec<Uuid>,
    statuses: Vec<&'static str>,
    reasons: Vec<Option<&'static str>>,
    pages: Vec<Option<&'static str>>,
    attempts: Vec<Option<i32>>,
    answers: Vec<Option<Value>>,
    digests: Vec<Option<Vec<u8>>>,
    outcomes: Vec<Option<Value>>,
    items: Vec<i32>,
    buckets: Vec<Uuid>,
    kinds: Vec<&'static str>,
}

/// Performs the steps that are possible, only the first one per session.
pub(super) async fn perform(
    server: &TestServer,
    ids: &[Uuid],
    model: &mut Model,
    clients: &[RespondentClient<'_>],
    steps: &[(usize, StepAction)],
) {
    let possible = |model: &Model, respondent: usize, action: StepAction| {
        let person: Option<&ModelSession> = model.sessions.get(respondent);
        person.is_some_and(|person| {
            person.ended.is_none() && (person.answers.is_some() || !matches!(action, StepAction::Complete))
        })
    };
    let mut seen = BTreeSet::new();
    let steps: Vec<(usize, StepAction)> = steps
        .iter()
        .copied()
        .filter(|(respondent, action)| possible(model, *respondent, *action) && seen.insert(*respondent))
        .collect();
    let (mut call, mut expected) = (GateCall::default(), Vec::new());
    for (item, (respondent, action)) in (1..).zip(&steps) {
        let before = model.sessions[*respondent].held.clone();
        call.add(item, clients[*respondent].session, &before, &mut model.sessions[*respondent], *action, ids);
        match action {
            StepAction::Answer { .. } => model.pass_gate(*respondent),
            StepAction::Complete => model.complete(*respondent),
            StepAction::Leave => {
                model.release_places(*respondent);
                model.sessions[*respondent].ended = Some("by_respondent");
            }
        }
        expected.extend(expected_rows(item, &before, *action, &model.sessions[*respondent], model));
    }
    let mut found = run(server, &call, ids).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{steps:?}");
}

impl GateCall {
    fn add(
        &mut self,
        item: i32,
        session: Uuid,
        held: &BTreeSet<usize>,
        person: &mut ModelSession,
        action: StepAction,
        ids: &[Uuid],
    ) {
        let mut submit = None;
        let (status, reason) = match action {
            StepAction::Answer { woman, north } => {
                person.attempt += 1;
                person.answers = Some((woman, north));
                let sex = if woman { "f" } else { "m" };
                submit = Some(json!({"sex": sex, "region": if north { "north" } else { "south" }}));
                ("active", None)
            }
            StepAction::Complete => ("completed", None),
            StepAction::Leave => ("terminated", Some("by_respondent")),
        };
        let digest = |answers: &Value| envelope::fingerprint(envelope::canonical::to_string(answers).expect("JSON"));
        self.sessions.push(session);
        self.statuses.push(status);
        self.reasons.push(reason);
        self.pages.push(submit.as_ref().map(|_| "only"));
        self.attempts.push(submit.as_ref().map(|_| i32::try_from(person.attempt).expect("few")));
        self.digests.push(submit.as_ref().map(|answers| digest(answers).to_vec()));
        self.outcomes.push(submit.as_ref().map(|_| json!({"status": "active", "next": "complete"})));
        self.answers.push(submit);
        let needed = match action {
            StepAction::Leave => BTreeSet::new(),
            StepAction::Answer { .. } | StepAction::Complete => Model::needed(person.answers),
        };
        for (bucket, id) in ids.iter().enumerate() {
            let kind = match (held.contains(&bucket), needed.contains(&bucket), action) {
                (true, false, _) => "release",
                (true, true, StepAction::Complete) => "finalize",
                (false, true, StepAction::Complete) => "fill",
                (false, true, _) => "reserve",
                (true, true, _) | (false, false, _) => continue,
            };
            self.items.push(item);
            self.buckets.push(*id);
            self.kinds.push(kind);
        }
    }
}

/// Returns the model's changes to the buckets, move by move.
fn expected_rows(
    item: i32,
    held: &BTreeSet<usize>,
    action: StepAction,
    person: &ModelSession,
    model: &Model,
) -> Vec<GateRow> {
    let row = |bucket: usize, moved: &str| {
        let now = &model.buckets[bucket];
        let closed = moved == "finalized" && now.filled == now.target;
        (item, Some(bucket), moved.to_owned(), now.reserved, now.filled, now.target, closed)
    };
    let all = |buckets: &BTreeSet<usize>, moved: &str| buckets.iter().map(|one| row(*one, moved)).collect::<Vec<_>>();
    if person.ended == Some("quota_full") {
        let full = (item, None, "full".to_owned(), 0, 0, 0, false);
        return [vec![full], all(held, "released")].concat();
    }
    match action {
        StepAction::Leave => all(held, "released"),
        StepAction::Answer { .. } => {
            [all(&(held - &person.held), "released"), all(&(&person.held - held), "reserved")].concat()
        }
        StepAction::Complete => {
            let filled = Model::needed(person.answers);
            [all(&(held - &filled), "released"), all(&filled, "finalized")].concat()
        }
    }
}

async fn run(server: &TestServer, call: &GateCall, ids: &[Uuid]) -> Vec<GateRow> {
    let numbers: BTreeMap<Uuid, usize> = ids.iter().enumerate().map(|(number, id)| (*id, number)).collect();
    let tx: Tx = server.platform.db().begin(server.platform.scope("acme")).await.expect("a transaction");
    let pages: Vec<&str> = call.sessions.iter().map(|_| "").collect();
    tx.query("SELECT 1 FROM surveys.open_sessions($1, $2, true)", &[&call.sessions, &pages])
        .await
        .expect("the sessions are locked");
    let GateCall { sessions, statuses, reasons, pages, attempts, answers, digests, outcomes, items, buckets, kinds } =
        call;
    let full = json!({"status": "terminated", "reason": "quota_full"});
    let sql = "SELECT item, bucket_id, moved, reserved, filled, target, closed
        FROM surveys.steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1200, 604800)";
    let rows = tx
        .query(
            sql,
            &[sessions, statuses, reasons, pages, attempts, answers, digests, outcomes, &full, items, buckets, kinds],
        )
        .await
        .expect("the gate accepts the steps");
    tx.commit().await.expect("the commit succeeds");
    let read = |row: &onceward::Row| {
        let count = |column: usize| i64::from(row.get::<_, i32>(column));
        let bucket = row.get::<_, Option<Uuid>>(1).map(|id| numbers[&id]);
        (row.get(0), bucket, row.get(2), count(3), count(4), count(5), row.get(6))
    };
    rows.iter().map(read).collect()
}

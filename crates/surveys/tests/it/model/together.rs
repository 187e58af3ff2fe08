//! Steps of several sessions in one call of the gate: as if they had come one after the other, and told so.

use super::{Model, Person};
use crate::support::*;
use onceward::{Tx, envelope};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What one of them does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Answer { woman: bool, north: bool },
    Complete,
    Leave,
}

pub(super) fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(woman, north)| Act::Answer { woman, north }),
        2 => Just(Act::Complete),
        1 => Just(Act::Leave),
    ]
}

/// What was moved: the step's number, the bucket's, how, and what that left: reserved, filled, target, closed. A step that found a
/// bucket full has one without a bucket.
type Moved = (i32, Option<usize>, String, i64, i64, i64, bool);

/// The arrays that the gate takes.
#[derive(Default)]
struct Call {
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

/// Does those of the steps that are possible, each session's first.
pub(super) async fn perform(
    house: &House,
    ids: &[Uuid],
    model: &mut Model,
    real: &[Respondent<'_>],
    steps: &[(usize, Act)],
) {
    let possible = |model: &Model, who: usize, act: Act| {
        let person: Option<&Person> = model.people.get(who);
        person
            .is_some_and(|person| person.ended.is_none() && (person.answers.is_some() || !matches!(act, Act::Complete)))
    };
    let mut seen = BTreeSet::new();
    let steps: Vec<(usize, Act)> =
        steps.iter().copied().filter(|(who, act)| possible(model, *who, *act) && seen.insert(*who)).collect();
    let (mut call, mut expected) = (Call::default(), Vec::new());
    for (item, (who, act)) in (1..).zip(&steps) {
        let before = model.people[*who].held.clone();
        call.add(item, real[*who].session, &before, &mut model.people[*who], *act, ids);
        match act {
            Act::Answer { .. } => model.pass(*who),
            Act::Complete => model.complete(*who),
            Act::Leave => {
                model.give_back(*who);
                model.people[*who].ended = Some("by_respondent");
            }
        }
        expected.extend(told(item, &before, *act, &model.people[*who], model));
    }
    let mut found = run(house, &call, ids).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{steps:?}");
}

impl Call {
    fn add(&mut self, item: i32, session: Uuid, held: &BTreeSet<usize>, person: &mut Person, act: Act, ids: &[Uuid]) {
        let mut submit = None;
        let (status, reason) = match act {
            Act::Answer { woman, north } => {
                person.attempt += 1;
                person.answers = Some((woman, north));
                let sex = if woman { "f" } else { "m" };
                submit = Some(json!({"sex": sex, "region": if north { "north" } else { "south" }}));
                ("active", None)
            }
            Act::Complete => ("completed", None),
            Act::Leave => ("terminated", Some("by_respondent")),
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
        let wanted = match act {
            Act::Leave => BTreeSet::new(),
            Act::Answer { .. } | Act::Complete => Model::wanted(person.answers),
        };
        for (bucket, id) in ids.iter().enumerate() {
            let kind = match (held.contains(&bucket), wanted.contains(&bucket), act) {
                (true, false, _) => "release",
                (true, true, Act::Complete) => "finalize",
                (false, true, Act::Complete) => "fill",
                (false, true, _) => "reserve",
                (true, true, _) | (false, false, _) => continue,
            };
            self.items.push(item);
            self.buckets.push(*id);
            self.kinds.push(kind);
        }
    }
}

/// What the model did to the buckets, move by move.
fn told(item: i32, held: &BTreeSet<usize>, act: Act, person: &Person, model: &Model) -> Vec<Moved> {
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
    match act {
        Act::Leave => all(held, "released"),
        Act::Answer { .. } => {
            [all(&(held - &person.held), "released"), all(&(&person.held - held), "reserved")].concat()
        }
        Act::Complete => {
            let filled = Model::wanted(person.answers);
            [all(&(held - &filled), "released"), all(&filled, "finalized")].concat()
        }
    }
}

async fn run(house: &House, call: &Call, ids: &[Uuid]) -> Vec<Moved> {
    let numbers: BTreeMap<Uuid, usize> = ids.iter().enumerate().map(|(number, id)| (*id, number)).collect();
    let tx: Tx = house.platform.db().begin(house.platform.scope("acme")).await.expect("a transaction");
    let pages: Vec<&str> = call.sessions.iter().map(|_| "").collect();
    tx.query("SELECT 1 FROM surveys.open_sessions($1, $2, true)", &[&call.sessions, &pages]).await.expect("the locks");
    let Call { sessions, statuses, reasons, pages, attempts, answers, digests, outcomes, items, buckets, kinds } = call;
    let full = json!({"status": "terminated", "reason": "quota_full"});
    let sql = "SELECT item, bucket_id, moved, reserved, filled, target, closed
        FROM surveys.steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1200, 604800)";
    let rows = tx
        .query(
            sql,
            &[sessions, statuses, reasons, pages, attempts, answers, digests, outcomes, &full, items, buckets, kinds],
        )
        .await
        .expect("the steps are taken");
    tx.commit().await.expect("the commit works");
    let read = |row: &onceward::Row| {
        let count = |column: usize| i64::from(row.get::<_, i32>(column));
        let bucket = row.get::<_, Option<Uuid>>(1).map(|id| numbers[&id]);
        (row.get(0), bucket, row.get(2), count(3), count(4), count(5), row.get(6))
    };
    rows.iter().map(read).collect()
}

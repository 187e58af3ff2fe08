//! The gate against a plain model of it, on a real database: whatever authors, respondents and the clock do in whatever order,
//! alone or together, answers and counts are the model's.

mod together;

use crate::support::*;
use onceward::Tx;
use onceward_testkit::variable;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Somebody does something. Respondents and buckets are meant by their number.
#[derive(Debug, Clone)]
enum Deed {
    Start,
    Answer {
        who: usize,
        woman: bool,
        north: bool,
    },
    /// The last submit comes once more.
    Again {
        who: usize,
    },
    Complete {
        who: usize,
    },
    Leave {
        who: usize,
    },
    /// Silent for long enough to lose their places, and the clock ticks.
    Silence {
        who: usize,
    },
    Target {
        bucket: usize,
        target: i64,
        overfill: i64,
    },
    /// Steps of several sessions in one call.
    Together(Vec<(usize, together::Act)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    target: i64,
    overfill: i64,
    reserved: i64,
    filled: i64,
}

impl Bucket {
    fn has_room(&self) -> bool {
        self.filled < self.target && self.reserved + self.filled < self.target + self.overfill
    }
}

#[derive(Debug, Clone, Default)]
struct Person {
    ended: Option<&'static str>,
    attempt: u32,
    answers: Option<(bool, bool)>,
    held: BTreeSet<usize>,
}

/// Everybody; women; women of the north.
const BUCKETS: usize = 3;

#[derive(Debug)]
struct Model {
    buckets: [Bucket; BUCKETS],
    people: Vec<Person>,
}

impl Model {
    fn wanted(answers: Option<(bool, bool)>) -> BTreeSet<usize> {
        match answers {
            Some((true, true)) => BTreeSet::from([0, 1, 2]),
            Some((true, false)) => BTreeSet::from([0, 1]),
            _ => BTreeSet::from([0]),
        }
    }

    fn give_back(&mut self, who: usize) {
        for bucket in std::mem::take(&mut self.people[who].held) {
            self.buckets[bucket].reserved -= 1;
        }
    }

    /// Takes what is wanted and gives back what is not, or ends the session.
    fn pass(&mut self, who: usize) {
        let wanted = Self::wanted(self.people[who].answers);
        let held = self.people[who].held.clone();
        if wanted.difference(&held).any(|bucket| !self.buckets[*bucket].has_room()) {
            self.give_back(who);
            self.people[who].ended = Some("quota_full");
            return;
        }
        wanted.difference(&held).for_each(|bucket| self.buckets[*bucket].reserved += 1);
        held.difference(&wanted).for_each(|bucket| self.buckets[*bucket].reserved -= 1);
        self.people[who].held = wanted;
    }

    fn complete(&mut self, who: usize) {
        self.pass(who);
        if self.people[who].ended.is_none() {
            for bucket in std::mem::take(&mut self.people[who].held) {
                self.buckets[bucket].reserved -= 1;
                self.buckets[bucket].filled += 1;
            }
            self.people[who].ended = Some("completed");
        }
    }
}

fn deeds() -> impl Strategy<Value = (Vec<(i64, i64)>, Vec<Deed>)> {
    let who = 0..4_usize;
    let deed = prop_oneof![
        4 => vec((who.clone(), together::acts()), 2..5).prop_map(Deed::Together),
        5 => Just(Deed::Start),
        5 => (who.clone(), any::<bool>(), any::<bool>()).prop_map(|(who, woman, north)| Deed::Answer { who, woman, north }),
        1 => who.clone().prop_map(|who| Deed::Again { who }),
        3 => who.clone().prop_map(|who| Deed::Complete { who }),
        1 => who.clone().prop_map(|who| Deed::Leave { who }),
        5 => who.prop_map(|who| Deed::Silence { who }),
        1 => (0..BUCKETS, 0..5_i64, 0..2_i64).prop_map(|(bucket, target, overfill)| Deed::Target { bucket, target, overfill }),
    ];
    // Few places, so that they are fought for; and some for everybody, or nothing happens.
    let targets = [(1..4_i64, 0..2_i64), (0..3, 0..2), (0..3, 0..2)].to_vec();
    (targets, vec(deed, 1..50))
}

#[test]
fn whatever_is_done_in_whatever_order_the_gate_does_what_the_model_does() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let house = runtime.block_on(House::open());
    let cases = variable("ONCEWARD_MODEL_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(40);
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
    let ran = runner.run(&deeds(), |(targets, deeds)| {
        runtime.block_on(play(&house, &targets, &deeds));
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
    runtime.block_on(house.places_add_up());
}

/// A test that cannot fail proves nothing: each of these rules, left out, is noticed.
#[test]
fn a_gate_that_is_broken_on_purpose_is_found_out() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let breaks = [
        ("surveys.is_full", "OR p_reserved + p_filled >= p_target + p_overfill", ""),
        ("surveys.is_full", "p_filled >= p_target OR ", ""),
        ("surveys.steps", "v_these := v_mine", "v_these := '{}'"),
        ("surveys.steps", "IF p_kinds[v_move] IN ('reserve', 'fill')", "IF p_kinds[v_move] = 'reserve'"),
        // What those before in the same call have left.
        ("surveys.steps", "OR surveys.is_full(v_res[v_at], v_fil[v_at], v_target[v_at], v_over[v_at])", ""),
        ("surveys.steps", "reserved := v_res[v_at];", "reserved := 0;"),
        ("surveys.expire", "b.reserved_n - h.places", "b.reserved_n"),
    ];
    for (function, rule, instead) in breaks {
        let house = runtime.block_on(House::open());
        runtime.block_on(break_rule(&house, function, rule, instead));
        let config =
            ProptestConfig { cases: 200, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let ran = runner.run(&deeds(), |(targets, deeds)| {
            runtime.block_on(play(&house, &targets, &deeds));
            Ok(())
        });
        assert!(ran.is_err(), "nobody noticed that {rule:?} is gone from {function}");
    }
}

/// Takes a rule out of a function, and the constraint that would come to its help out of the table.
async fn break_rule(house: &House, function: &str, rule: &str, instead: &str) {
    let find = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE oid::regprocedure::text LIKE $1 || '(%'";
    let whole: String = house.ask(find, &[&function]).await;
    assert!(whole.contains(rule), "{function} has no {rule:?}");
    let drop = "ALTER TABLE surveys.quota_bucket DROP CONSTRAINT quota_never_overfills";
    house.owner.batch_execute(&format!("{drop}; {}", whole.replace(rule, instead))).await.expect("it can be broken");
}

/// Does all of it to a survey of its own, and compares after each deed.
async fn play(house: &House, targets: &[(i64, i64)], deeds: &[Deed]) {
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    let north = json!({"equals": {"question": "region", "value": "north"}});
    let conditions = [json!({"all": []}), women.clone(), json!({"all": [women, north]})];
    let buckets: Vec<Value> = targets.iter().zip(conditions).enumerate().map(|(number, ((target, overfill), condition))| {
        json!({"name": number.to_string(), "condition": condition, "target": target, "max_overfill": overfill})
    }).collect();
    let ids: Vec<Uuid> =
        author.quotas(survey, &json!({ "buckets": buckets })).await.into_iter().map(|(_, id)| id).collect();
    let (_, link) = author.collector(survey, json!({})).await;
    let bucket = |number: usize| {
        let (target, overfill) = targets[number];
        Bucket { target, overfill, reserved: 0, filled: 0 }
    };
    let mut model = Model { buckets: std::array::from_fn(bucket), people: Vec::new() };
    let mut real: Vec<Respondent<'_>> = Vec::new();
    for deed in deeds {
        perform(&author, survey, &ids, &link, &mut model, &mut real, deed).await;
        let sql = "SELECT target_n, max_overfill, reserved_n, filled_n FROM surveys.quota_bucket WHERE bucket_id = $1";
        for (id, expected) in ids.iter().zip(&model.buckets) {
            let row = house.owner.query_one(sql, &[id]).await.expect("the bucket");
            let count = |column: usize| i64::from(row.get::<_, i32>(column));
            let found = Bucket { target: count(0), overfill: count(1), reserved: count(2), filled: count(3) };
            assert_eq!(found, *expected, "after {deed:?} of {deeds:?}");
        }
    }
}

async fn perform<'h>(
    author: &Author<'h>,
    survey: Uuid,
    ids: &[Uuid],
    link: &str,
    model: &mut Model,
    real: &mut Vec<Respondent<'h>>,
    deed: &Deed,
) {
    match *deed {
        Deed::Together(ref steps) => together::perform(author.house, ids, model, real, steps).await,
        Deed::Start => {
            model.people.push(Person::default());
            model.pass(model.people.len() - 1);
            real.push(author.respondent(link).await);
            let begun = real.last().expect("it began").begun.clone();
            same_end(model.people.last().expect("it began"), &begun);
        }
        Deed::Target { bucket, target, overfill } => {
            let path = format!("/api/surveys/{survey}/quotas/{}", ids[bucket]);
            let body = json!({"target": target, "max_overfill": overfill});
            author.send(Method::PATCH, &path, Some(&body)).await.with_status(200);
            (model.buckets[bucket].target, model.buckets[bucket].overfill) = (target, overfill);
        }
        Deed::Answer { who, .. }
        | Deed::Again { who }
        | Deed::Complete { who }
        | Deed::Leave { who }
        | Deed::Silence { who }
            if who >= real.len() => {}
        Deed::Answer { who, woman, north } => {
            let person = &mut model.people[who];
            person.attempt += 1;
            let answer = submit(&real[who], person.attempt, woman, north).await;
            if person.ended.is_some() {
                person.attempt -= 1;
                assert_eq!(answer.problem(409), "session-ended");
                return;
            }
            person.answers = Some((woman, north));
            model.pass(who);
            same_end(&model.people[who], &answer.with_status(200));
        }
        Deed::Again { who } => {
            let Person { attempt, answers: Some((woman, north)), .. } = model.people[who] else {
                return;
            };
            submit(&real[who], attempt, woman, north).await.with_status(200);
        }
        Deed::Complete { who } => {
            let answer = real[who].complete().await;
            match (model.people[who].ended, model.people[who].answers) {
                (None, None) => assert_eq!(answer.problem(409), "page-not-due"),
                (None, Some(_)) => {
                    model.complete(who);
                    same_end(&model.people[who], &answer.with_status(200));
                }
                (Some("completed" | "quota_full"), _) => same_end(&model.people[who], &answer.with_status(200)),
                (Some(_), _) => assert_eq!(answer.problem(409), "session-ended"),
            }
        }
        Deed::Leave { who } => {
            let answer = real[who].leave().await;
            match model.people[who].ended {
                Some("completed") => assert_eq!(answer.problem(409), "session-ended"),
                Some(_) => same_end(&model.people[who], &answer.with_status(200)),
                None => {
                    model.give_back(who);
                    model.people[who].ended = Some("by_respondent");
                    same_end(&model.people[who], &answer.with_status(200));
                }
            }
        }
        Deed::Silence { who } => {
            fall_silent(author.house, real[who].session).await;
            if model.people[who].ended.is_none() {
                model.give_back(who);
            }
        }
    }
}

async fn submit(person: &Respondent<'_>, attempt: u32, woman: bool, north: bool) -> Answer {
    let answers = json!({"sex": if woman { "f" } else { "m" }, "region": if north { "north" } else { "south" }});
    person.answer("only", attempt, answers).await
}

#[track_caller]
fn same_end(person: &Person, told: &Value) {
    let found = told["reason"].as_str().or_else(|| told["status"].as_str().filter(|status| *status != "active"));
    assert_eq!(found, person.ended, "{told}");
}

/// As if the session had been silent for a while, and the clock had come by.
async fn fall_silent(house: &House, session: Uuid) {
    house.fall_silent(session).await;
    let tx: Tx = house.platform.db().begin(house.platform.scope("acme")).await.expect("a transaction");
    tx.query("SELECT 1 FROM surveys.expire(1200, 604800, 100)", &[]).await.expect("the clock's step");
    tx.commit().await.expect("the commit works");
}

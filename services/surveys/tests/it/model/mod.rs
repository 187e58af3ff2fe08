//! Compares the gate with a simple model on a real database: whatever authors, respondents and the clock do in any
//! order, alone or concurrently, responses and counts equal the model's.

mod batch;

use crate::support::*;
use onceward::Tx;
use onceward_testkit::env_number;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

/// One action. Respondents and buckets are identified by number.
#[derive(Debug, Clone)]
enum Action {
    Start,
    Answer {
        respondent: usize,
        woman: bool,
        north: bool,
    },
    /// The last submit is repeated.
    Repeat {
        respondent: usize,
    },
    Complete {
        respondent: usize,
    },
    Leave {
        respondent: usize,
    },
    /// The respondent is inactive for long enough to lose their places, and the clock ticks.
    BecomeIdle {
        respondent: usize,
    },
    SetTarget {
        bucket: usize,
        target: i64,
        overfill: i64,
    },
    /// Steps of several sessions in one call.
    Batch(Vec<(usize, batch::StepAction)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelBucket {
    target: i64,
    overfill: i64,
    reserved: i64,
    filled: i64,
}

impl ModelBucket {
    fn has_room(&self) -> bool {
        self.filled < self.target && self.reserved + self.filled < self.target + self.overfill
    }
}

#[derive(Debug, Clone, Default)]
struct ModelSession {
    ended: Option<&'static str>,
    attempt: u32,
    answers: Option<(bool, bool)>,
    held: BTreeSet<usize>,
}

/// Everybody; women; women from the north.
const BUCKETS: usize = 3;

#[derive(Debug)]
struct Model {
    buckets: [ModelBucket; BUCKETS],
    sessions: Vec<ModelSession>,
}

impl Model {
    fn needed(answers: Option<(bool, bool)>) -> BTreeSet<usize> {
        match answers {
            Some((true, true)) => BTreeSet::from([0, 1, 2]),
            Some((true, false)) => BTreeSet::from([0, 1]),
            _ => BTreeSet::from([0]),
        }
    }

    fn release_places(&mut self, respondent: usize) {
        for bucket in std::mem::take(&mut self.sessions[respondent].held) {
            self.buckets[bucket].reserved -= 1;
        }
    }

    /// Reserves the places that are needed and releases the others, or ends the session.
    fn pass_gate(&mut self, respondent: usize) {
        let needed = Self::needed(self.sessions[respondent].answers);
        let held = self.sessions[respondent].held.clone();
        if needed.difference(&held).any(|bucket| !self.buckets[*bucket].has_room()) {
            self.release_places(respondent);
            self.sessions[respondent].ended = Some("quota_full");
            return;
        }
        needed.difference(&held).for_each(|bucket| self.buckets[*bucket].reserved += 1);
        held.difference(&needed).for_each(|bucket| self.buckets[*bucket].reserved -= 1);
        self.sessions[respondent].held = needed;
    }

    fn complete(&mut self, respondent: usize) {
        self.pass_gate(respondent);
        if self.sessions[respondent].ended.is_none() {
            for bucket in std::mem::take(&mut self.sessions[respondent].held) {
                self.buckets[bucket].reserved -= 1;
                self.buckets[bucket].filled += 1;
            }
            self.sessions[respondent].ended = Some("completed");
        }
    }
}

fn actions() -> impl Strategy<Value = (Vec<(i64, i64)>, Vec<Action>)> {
    let respondent = 0..4_usize;
    let action = prop_oneof![
        4 => vec((respondent.clone(), batch::step_actions()), 2..5).prop_map(Action::Batch),
        5 => Just(Action::Start),
        5 => (respondent.clone(), any::<bool>(), any::<bool>()).prop_map(|(respondent, woman, north)| Action::Answer { respondent, woman, north }),
        1 => respondent.clone().prop_map(|respondent| Action::Repeat { respondent }),
        3 => respondent.clone().prop_map(|respondent| Action::Complete { respondent }),
        1 => respondent.clone().prop_map(|respondent| Action::Leave { respondent }),
        5 => respondent.prop_map(|respondent| Action::BecomeIdle { respondent }),
        1 => (0..BUCKETS, 0..5_i64, 0..2_i64).prop_map(|(bucket, target, overfill)| Action::SetTarget { bucket, target, overfill }),
    ];
    // Few places, so that respondents compete for them; but some for everybody, so that sessions can proceed.
    let targets = [(1..4_i64, 0..2_i64), (0..3, 0..2), (0..3, 0..2)].to_vec();
    (targets, vec(action, 1..50))
}

#[test]
fn the_gate_equals_the_model_for_any_sequence_of_actions() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let server = runtime.block_on(TestServer::start());
    let cases = env_number("ONCEWARD_MODEL_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(40);
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
    let ran = runner.run(&actions(), |(targets, actions)| {
        runtime.block_on(run_actions(&server, &targets, &actions));
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
    runtime.block_on(server.assert_places_consistent());
}

/// A test that cannot fail proves nothing: removing any one of these rules is detected.
#[test]
fn a_deliberately_broken_gate_is_detected() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let breaks = [
        ("surveys.is_full", "OR p_reserved + p_filled >= p_target + p_overfill", ""),
        ("surveys.is_full", "p_filled >= p_target OR ", ""),
        ("surveys.steps", "v_these := v_mine", "v_these := '{}'"),
        ("surveys.steps", "IF p_kinds[v_move] IN ('reserve', 'fill')", "IF p_kinds[v_move] = 'reserve'"),
        // The places left by earlier steps of the same call.
        ("surveys.steps", "OR surveys.is_full(v_res[v_at], v_fil[v_at], v_target[v_at], v_over[v_at])", ""),
        ("surveys.steps", "reserved := v_res[v_at];", "reserved := 0;"),
        ("surveys.expire", "b.reserved_n - h.places", "b.reserved_n"),
    ];
    for (function, rule, instead) in breaks {
        let server = runtime.block_on(TestServer::start());
        runtime.block_on(break_rule(&server, function, rule, instead));
        let config =
            ProptestConfig { cases: 200, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let ran = runner.run(&actions(), |(targets, actions)| {
            runtime.block_on(run_actions(&server, &targets, &actions));
            Ok(())
        });
        assert!(ran.is_err(), "removing {rule:?} from {function} was not detected");
    }
}

/// Removes a rule from a function, and drops the table constraint that would hide its absence.
async fn break_rule(server: &TestServer, function: &str, rule: &str, instead: &str) {
    let find = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE oid::regprocedure::text LIKE $1 || '(%'";
    let whole: String = server.query_value(find, &[&function]).await;
    assert!(whole.contains(rule), "{function} has no {rule:?}");
    let drop = "ALTER TABLE surveys.quota_bucket DROP CONSTRAINT quota_never_overfills";
    server
        .owner
        .batch_execute(&format!("{drop}; {}", whole.replace(rule, instead)))
        .await
        .expect("the function can be replaced");
}

/// Performs all actions on a new survey, and compares after each one.
async fn run_actions(server: &TestServer, targets: &[(i64, i64)], actions: &[Action]) {
    let author = server.author("acme");
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
        ModelBucket { target, overfill, reserved: 0, filled: 0 }
    };
    let mut model = Model { buckets: std::array::from_fn(bucket), sessions: Vec::new() };
    let mut clients: Vec<RespondentClient<'_>> = Vec::new();
    for action in actions {
        perform(&author, survey, &ids, &link, &mut model, &mut clients, action).await;
        let sql = "SELECT target_n, max_overfill, reserved_n, filled_n FROM surveys.quota_bucket WHERE bucket_id = $1";
        for (id, expected) in ids.iter().zip(&model.buckets) {
            let row = server.owner.query_one(sql, &[id]).await.expect("the bucket");
            let count = |column: usize| i64::from(row.get::<_, i32>(column));
            let found = ModelBucket { target: count(0), overfill: count(1), reserved: count(2), filled: count(3) };
            assert_eq!(found, *expected, "after {action:?} of {actions:?}");
        }
    }
}

async fn perform<'s>(
    author: &AuthorClient<'s>,
    survey: Uuid,
    ids: &[Uuid],
    link: &str,
    model: &mut Model,
    clients: &mut Vec<RespondentClient<'s>>,
    action: &Action,
) {
    match *action {
        Action::Batch(ref steps) => batch::perform(author.server, ids, model, clients, steps).await,
        Action::Start => {
            model.sessions.push(ModelSession::default());
            model.pass_gate(model.sessions.len() - 1);
            clients.push(author.respondent(link).await);
            let started = clients.last().expect("a session was started").start_response.clone();
            assert_same_end(model.sessions.last().expect("a session was started"), &started);
        }
        Action::SetTarget { bucket, target, overfill } => {
            let path = format!("/api/surveys/{survey}/quotas/{}", ids[bucket]);
            let body = json!({"target": target, "max_overfill": overfill});
            author.send(Method::PATCH, &path, Some(&body)).await.with_status(200);
            (model.buckets[bucket].target, model.buckets[bucket].overfill) = (target, overfill);
        }
        Action::Answer { respondent, .. }
        | Action::Repeat { respondent }
        | Action::Complete { respondent }
        | Action::Leave { respondent }
        | Action::BecomeIdle { respondent }
            if respondent >= clients.len() => {}
        Action::Answer { respondent, woman, north } => {
            let person = &mut model.sessions[respondent];
            person.attempt += 1;
            let answer = submit(&clients[respondent], person.attempt, woman, north).await;
            if person.ended.is_some() {
                person.attempt -= 1;
                assert_eq!(answer.problem(409), "session-ended");
                return;
            }
            person.answers = Some((woman, north));
            model.pass_gate(respondent);
            assert_same_end(&model.sessions[respondent], &answer.with_status(200));
        }
        Action::Repeat { respondent } => {
            let ModelSession { attempt, answers: Some((woman, north)), .. } = model.sessions[respondent] else {
                return;
            };
            submit(&clients[respondent], attempt, woman, north).await.with_status(200);
        }
        Action::Complete { respondent } => {
            let answer = clients[respondent].complete().await;
            match (model.sessions[respondent].ended, model.sessions[respondent].answers) {
                (None, None) => assert_eq!(answer.problem(409), "page-not-due"),
                (None, Some(_)) => {
                    model.complete(respondent);
                    assert_same_end(&model.sessions[respondent], &answer.with_status(200));
                }
                (Some("completed" | "quota_full"), _) => {
                    assert_same_end(&model.sessions[respondent], &answer.with_status(200))
                }
                (Some(_), _) => assert_eq!(answer.problem(409), "session-ended"),
            }
        }
        Action::Leave { respondent } => {
            let answer = clients[respondent].leave().await;
            match model.sessions[respondent].ended {
                Some("completed") => assert_eq!(answer.problem(409), "session-ended"),
                Some(_) => assert_same_end(&model.sessions[respondent], &answer.with_status(200)),
                None => {
                    model.release_places(respondent);
                    model.sessions[respondent].ended = Some("by_respondent");
                    assert_same_end(&model.sessions[respondent], &answer.with_status(200));
                }
            }
        }
        Action::BecomeIdle { respondent } => {
            become_idle(author.server, clients[respondent].session).await;
            if model.sessions[respondent].ended.is_none() {
                model.release_places(respondent);
            }
        }
    }
}

async fn submit(person: &RespondentClient<'_>, attempt: u32, woman: bool, north: bool) -> HttpResponse {
    let answers = json!({"sex": if woman { "f" } else { "m" }, "region": if north { "north" } else { "south" }});
    person.answer("only", attempt, answers).await
}

#[track_caller]
fn assert_same_end(person: &ModelSession, response: &Value) {
    let found =
        response["reason"].as_str().or_else(|| response["status"].as_str().filter(|status| *status != "active"));
    assert_eq!(found, person.ended, "{response}");
}

/// Makes the session look inactive for a while, and lets the clock tick.
async fn become_idle(server: &TestServer, session: Uuid) {
    server.make_session_idle(session).await;
    let tx: Tx = server.platform.db().begin(server.platform.scope("acme")).await.expect("a transaction");
    tx.query("SELECT 1 FROM surveys.expire(1200, 604800, 100)", &[]).await.expect("expiry succeeds");
    tx.commit().await.expect("the commit succeeds");
}

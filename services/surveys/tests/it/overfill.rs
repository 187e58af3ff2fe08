//! The overfill proof: many clients compete for a bucket with few places, interlocked with two others, while
//! connections are killed, requests are cancelled and repeated, places expire and sessions return late. An author
//! raises the targets as they are filled, so that few places are left at any time. `ONCEWARD_OVERFILL_S` extends the
//! test.

use crate::support::*;
use futures_util::future::join_all;
use onceward::message_log::stats::queue_stats;
use onceward_testkit::{env_number, eventually};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use uuid::Uuid;

const CLIENTS: usize = 64;
/// Each bucket's name, the places left below its target, and its allowed overfill.
const PLACES: [(&str, i64, i64); 3] = [("both", 8, 1), ("women", 10, 0), ("north", 12, 3)];
const DEFAULT_S: u64 = 12;

/// Counts what happened, to show afterwards that every case occurred.
#[derive(Default)]
struct ObservedCases {
    checks: AtomicU64,
    cancelled: AtomicU64,
    unavailable: AtomicU64,
    full: AtomicU64,
    completed: AtomicU64,
    late: AtomicU64,
    killed: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_is_overfilled_and_no_place_is_lost_under_competition() {
    let settings = onceward_surveys::Settings { expire_batch: 20, ..settings() };
    let server = TestServer::start_with(settings, None).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let women = json!({"equals": {"question": "sex", "value": "f"}});
    let north = json!({"equals": {"question": "region", "value": "north"}});
    let conditions = [json!({"all": [women, north]}), women, north];
    let buckets = PLACES.iter().zip(conditions).map(|((name, places, overfill), condition)| {
        json!({"name": name, "condition": condition, "target": places, "max_overfill": overfill})
    });
    let quotas = json!({"buckets": buckets.collect::<Vec<_>>()});
    let buckets = author.quotas(survey, &quotas).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let seconds = env_number("ONCEWARD_OVERFILL_S").unwrap_or(DEFAULT_S);
    let until = Instant::now() + Duration::from_secs(seconds);

    let (cases, stop) = (ObservedCases::default(), AtomicBool::new(false));
    let clients = async {
        join_all((0..CLIENTS).map(|_| client(&server, &link, &cases, until))).await;
        stop.store(true, Relaxed);
    };
    let raising = async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        while !stop.load(Relaxed) {
            pace.tick().await;
            raise_targets(&author, survey, &buckets).await;
        }
    };
    tokio::join!(
        clients,
        raising,
        check_limits(&server, &cases, &stop),
        tick_repeatedly(&server, &stop),
        kill_connections(&server, &cases, &stop)
    );

    let counts = [&cases.checks, &cases.cancelled, &cases.full, &cases.completed, &cases.late, &cases.killed]
        .map(|one| one.load(Relaxed));
    assert!(
        counts.iter().all(|count| *count > 0),
        "some cases did not occur: {counts:?}, unavailable {:?}",
        cases.unavailable
    );
    server.assert_places_consistent().await;
    let reserved = server.published_count("quota.reserved.v1").await;
    let finalized = server.published_count("quota.finalized.v1").await;
    assert!(
        reserved > finalized + 100,
        "released places were not reserved again: {reserved} reserved, {finalized} filled"
    );
    raise_targets(&author, survey, &buckets).await;
    assert_every_place_can_be_filled(&server, &author, survey, &link).await;
}

/// Simulates respondents one after the other: some complete, some leave, some are inactive and return after losing
/// their place.
async fn client(server: &TestServer, link: &str, cases: &ObservedCases, until: Instant) {
    while Instant::now() < until {
        let key = Uuid::now_v7().to_string();
        let Some(start_response) = retry(cases, until, || RespondentClient::try_start(server, link, &key)).await else {
            return;
        };
        let person = RespondentClient::resume(server, &start_response);
        let (woman, northern) = (rand::rng().random_ratio(9, 10), rand::rng().random_ratio(8, 10));
        let answers = json!({"sex": if woman { "f" } else { "m" }, "region": if northern { "north" } else { "south" }});
        let submit = || person.answer("only", 1, answers.clone());
        if rand::rng().random_ratio(1, 4) {
            // The client disconnects before the response arrives.
            let patience = Duration::from_micros(rand::rng().random_range(0..15_000));
            if tokio::time::timeout(patience, person.send("only", 1, &answers)).await.is_err() {
                cases.cancelled.fetch_add(1, Relaxed);
            }
        }
        let Some(answer) = retry(cases, until, submit).await else {
            return;
        };
        if answer["status"] == "terminated" {
            assert_eq!(answer["reason"], "quota_full");
            cases.full.fetch_add(1, Relaxed);
            continue;
        }
        let action = rand::rng().random_range(0..100);
        if action >= 50 {
            server.make_session_idle(person.session).await;
        }
        match action {
            0..40 => drop(retry(cases, until, || person.leave()).await),
            // In time, after the clock has ticked, or at the same moment.
            40..50 | 75..100 => {
                let end = retry(cases, until, || person.complete()).await;
                if end.is_some_and(|end| end["status"] == "completed") {
                    let count = if action < 50 { &cases.completed } else { &cases.late };
                    count.fetch_add(1, Relaxed);
                }
            }
            _ => {}
        }
    }
}

/// Repeats a request until it succeeds or the session has ended, or until the time is over.
async fn retry<F: Future<Output = HttpResponse>>(
    cases: &ObservedCases,
    until: Instant,
    send: impl Fn() -> F,
) -> Option<serde_json::Value> {
    while Instant::now() < until + Duration::from_secs(30) {
        let response = send().await;
        match response.status {
            200 | 201 => return Some(response.body),
            503 => drop(cases.unavailable.fetch_add(1, Relaxed)),
            _ => assert_eq!(response.body["code"], "session-ended", "{}", response.body),
        }
        if response.status == 409 {
            return Some(response.body);
        }
    }
    None
}

/// Sets each target to the filled count plus the places that should be left.
async fn raise_targets(author: &AuthorClient<'_>, survey: Uuid, buckets: &[(String, Uuid)]) {
    for (name, places, _) in PLACES {
        let (_, filled, target) = author.bucket_counts(survey, name).await;
        let (_, bucket) = buckets.iter().find(|(found, _)| found == name).expect("the bucket");
        if filled + places != target {
            let path = format!("/api/surveys/{survey}/quotas/{bucket}");
            author.send(Method::PATCH, &path, Some(&json!({"target": filled + places}))).await.with_status(200);
        }
    }
}

/// Checks the limits continuously; every check is one snapshot.
async fn check_limits(server: &TestServer, cases: &ObservedCases, stop: &AtomicBool) {
    let over = "SELECT count(*) FROM surveys.quota_bucket WHERE reserved_n + filled_n > target_n + max_overfill";
    while !stop.load(Relaxed) {
        assert_eq!(server.query_value::<i64>(over, &[]).await, 0, "a bucket is overfilled");
        server.assert_places_consistent().await;
        cases.checks.fetch_add(1, Relaxed);
    }
}

/// Ticks again as soon as the last tick was handled.
async fn tick_repeatedly(server: &TestServer, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        server.publish_expiry_tick("acme").await;
        eventually("the tick is handled", || async {
            let all = queue_stats(server.platform.db()).await.ok()?;
            let queue = all.into_iter().find(|found| found.queue == "surveys.expire.v1").expect("the queue");
            (queue.depth + queue.deferred == 0).then_some(())
        })
        .await;
    }
}

/// Terminates a connection in the middle of a transaction, several times per second.
async fn kill_connections(server: &TestServer, cases: &ObservedCases, stop: &AtomicBool) {
    let mut pace = tokio::time::interval(Duration::from_millis(150));
    let kill = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND state <> 'idle'
            AND query ~ 'surveys.(admit|open_sessions|steps|expire)' ORDER BY random() LIMIT 1) AS one";
    while !stop.load(Relaxed) {
        pace.tick().await;
        cases.killed.fetch_add(server.query_value::<i64>(kill, &[]).await.unsigned_abs(), Relaxed);
    }
}

/// Expires the remaining sessions; then as many respondents as there are places complete, one after the other.
async fn assert_every_place_can_be_filled(server: &TestServer, author: &AuthorClient<'_>, survey: Uuid, link: &str) {
    server.make_idle("acme", 100_000_000).await;
    eventually("every session has ended", || async {
        server.publish_expiry_tick("acme").await;
        let left: i64 = server.query_value("SELECT count(*) FROM surveys.session WHERE status = 'active'", &[]).await;
        (left == 0).then_some(())
    })
    .await;
    let kinds = [("f", "north"), ("f", "south"), ("m", "north")];
    for ((bucket, places, _), (sex, region)) in PLACES.into_iter().zip(kinds) {
        for _ in 0..=places {
            let person = author.respondent(link).await;
            let answers = json!({"sex": sex, "region": region});
            if person.answer("only", 1, answers).await.with_status(200)["status"] == "active" {
                assert_eq!(person.complete().await.with_status(200)["status"], "completed");
            }
        }
        let (reserved, filled, target) = author.bucket_counts(survey, bucket).await;
        assert_eq!((reserved, filled), (0, target), "{bucket}");
    }
    server.assert_places_consistent().await;
}

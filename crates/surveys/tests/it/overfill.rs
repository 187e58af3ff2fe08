//! The overfill proof: many clients at a bucket with few places, interlocked with two others, while connections are killed,
//! requests are cut off and repeated, places expire and sessions come back late. An author raises the targets as they are
//! filled, so that there are always few places left. `ONCEWARD_OVERFILL_S` makes it longer.

use crate::support::*;
use futures_util::future::join_all;
use onceward::transport_postgres::stats::queue_stats;
use onceward_testkit::{eventually, variable};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use uuid::Uuid;

const CLIENTS: usize = 64;
/// Each bucket's places that are left, and how many more may be out.
const PLACES: [(&str, i64, i64); 3] = [("both", 8, 1), ("women", 10, 0), ("north", 12, 3)];
const USUAL_S: u64 = 12;

/// What happened, to show afterwards that all of it did.
#[derive(Default)]
struct Seen {
    looks: AtomicU64,
    cut_off: AtomicU64,
    unavailable: AtomicU64,
    full: AtomicU64,
    completed: AtomicU64,
    late: AtomicU64,
    killed: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bucket_is_ever_overfilled_and_no_place_is_ever_lost() {
    let settings = onceward_surveys::Settings { expire_batch: 20, ..settings() };
    let house = House::with(settings, None).await;
    let author = house.author("acme");
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
    let seconds = variable("ONCEWARD_OVERFILL_S").unwrap_or(USUAL_S);
    let until = Instant::now() + Duration::from_secs(seconds);

    let (seen, stop) = (Seen::default(), AtomicBool::new(false));
    let clients = async {
        join_all((0..CLIENTS).map(|_| client(&house, &link, &seen, until))).await;
        stop.store(true, Relaxed);
    };
    let raising = async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        while !stop.load(Relaxed) {
            pace.tick().await;
            raise(&author, survey, &buckets).await;
        }
    };
    tokio::join!(clients, raising, watch(&house, &seen, &stop), clock(&house, &stop), killer(&house, &seen, &stop));

    let counts = [&seen.looks, &seen.cut_off, &seen.full, &seen.completed, &seen.late, &seen.killed]
        .map(|one| one.load(Relaxed));
    assert!(
        counts.iter().all(|count| *count > 0),
        "everything was to happen: {counts:?}, unavailable {:?}",
        seen.unavailable
    );
    house.places_add_up().await;
    let reserved = house.told("quota.reserved.v1").await;
    let finalized = house.told("quota.finalized.v1").await;
    assert!(
        reserved > finalized + 100,
        "places given back are given out again: {reserved} reserved, {finalized} filled"
    );
    raise(&author, survey, &buckets).await;
    every_place_can_still_be_filled(&house, &author, survey, &link).await;
}

/// One respondent after the other: some complete, some leave, some are silent and come back when their place is gone.
async fn client(house: &House, link: &str, seen: &Seen, until: Instant) {
    while Instant::now() < until {
        let key = Uuid::now_v7().to_string();
        let Some(begun) = insist(seen, until, || Respondent::try_start(house, link, &key)).await else {
            return;
        };
        let person = Respondent::resume(house, &begun);
        let (woman, northern) = (rand::rng().random_ratio(9, 10), rand::rng().random_ratio(8, 10));
        let answers = json!({"sex": if woman { "f" } else { "m" }, "region": if northern { "north" } else { "south" }});
        let submit = || person.answer("only", 1, answers.clone());
        if rand::rng().random_ratio(1, 4) {
            // The client is gone before the answer is there.
            let patience = Duration::from_micros(rand::rng().random_range(0..15_000));
            if tokio::time::timeout(patience, person.send("only", 1, &answers)).await.is_err() {
                seen.cut_off.fetch_add(1, Relaxed);
            }
        }
        let Some(answer) = insist(seen, until, submit).await else {
            return;
        };
        if answer["status"] == "terminated" {
            assert_eq!(answer["reason"], "quota_full");
            seen.full.fetch_add(1, Relaxed);
            continue;
        }
        let deed = rand::rng().random_range(0..100);
        if deed >= 50 {
            house.fall_silent(person.session).await;
        }
        match deed {
            0..40 => drop(insist(seen, until, || person.leave()).await),
            // In time, or when the clock has come by, or in the same moment.
            40..50 | 75..100 => {
                let end = insist(seen, until, || person.complete()).await;
                if end.is_some_and(|end| end["status"] == "completed") {
                    let count = if deed < 50 { &seen.completed } else { &seen.late };
                    count.fetch_add(1, Relaxed);
                }
            }
            _ => {}
        }
    }
}

/// Repeats a request until it is answered, or until it is over.
async fn insist<F: Future<Output = Answer>>(
    seen: &Seen,
    until: Instant,
    ask: impl Fn() -> F,
) -> Option<serde_json::Value> {
    while Instant::now() < until + Duration::from_secs(30) {
        let answer = ask().await;
        match answer.status {
            200 | 201 => return Some(answer.body),
            503 => drop(seen.unavailable.fetch_add(1, Relaxed)),
            _ => assert_eq!(answer.body["code"], "session-ended", "{}", answer.body),
        }
        if answer.status == 409 {
            return Some(answer.body);
        }
    }
    None
}

/// Sets the targets to what is filled and the places that are to be left.
async fn raise(author: &Author<'_>, survey: Uuid, buckets: &[(String, Uuid)]) {
    for (name, places, _) in PLACES {
        let (_, filled, target) = author.fill(survey, name).await;
        let (_, bucket) = buckets.iter().find(|(found, _)| found == name).expect("the bucket");
        if filled + places != target {
            let path = format!("/api/surveys/{survey}/quotas/{bucket}");
            author.send(Method::PATCH, &path, Some(&json!({"target": filled + places}))).await.with_status(200);
        }
    }
}

/// Looks all the time; every look is one snapshot.
async fn watch(house: &House, seen: &Seen, stop: &AtomicBool) {
    let over = "SELECT count(*) FROM surveys.quota_bucket WHERE reserved_n + filled_n > target_n + max_overfill";
    while !stop.load(Relaxed) {
        assert_eq!(house.ask::<i64>(over, &[]).await, 0, "a bucket is overfilled");
        house.places_add_up().await;
        seen.looks.fetch_add(1, Relaxed);
    }
}

/// The clock ticks as soon as the last tick was handled.
async fn clock(house: &House, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        house.tick("acme").await;
        eventually("the tick is handled", || async {
            let all = queue_stats(house.platform.db()).await.ok()?;
            let queue = all.into_iter().find(|found| found.queue == "surveys.expire.v1").expect("the queue");
            (queue.depth + queue.deferred == 0).then_some(())
        })
        .await;
    }
}

/// Ends a connection that is in the middle of a transaction, several times a second.
async fn killer(house: &House, seen: &Seen, stop: &AtomicBool) {
    let mut pace = tokio::time::interval(Duration::from_millis(150));
    let kill = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND state <> 'idle'
            AND query ~ 'surveys.(admit|open_sessions|steps|expire)' ORDER BY random() LIMIT 1) AS one";
    while !stop.load(Relaxed) {
        pace.tick().await;
        seen.killed.fetch_add(house.ask::<i64>(kill, &[]).await.unsigned_abs(), Relaxed);
    }
}

/// Everybody who is left goes, and then as many as there are places complete, one after the other.
async fn every_place_can_still_be_filled(house: &House, author: &Author<'_>, survey: Uuid, link: &str) {
    house.silence("acme", 100_000_000).await;
    eventually("everybody has gone", || async {
        house.tick("acme").await;
        let left: i64 = house.ask("SELECT count(*) FROM surveys.session WHERE status = 'active'", &[]).await;
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
        let (reserved, filled, target) = author.fill(survey, bucket).await;
        assert_eq!((reserved, filled), (0, target), "{bucket}");
    }
    house.places_add_up().await;
}

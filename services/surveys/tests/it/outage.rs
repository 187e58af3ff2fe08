//! The outage drill: the bus is unavailable under load, and respondents do not notice.
//!
//! `ONCEWARD_OUTAGE_S` sets the duration in seconds (default: 6).

use crate::support::{AuthorClient, TestServer, settings, short_definition};
use onceward::broker::BusKind;
use onceward_testkit::{PrivateBroker, env_number, eventually, left_out};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const OUTAGE_S: u64 = 6;
const RESPONDENTS_BEFORE: i64 = 20;
/// A session is started, answered once and completed.
const EVENTS_PER_RESPONDENT: i64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn respondents_continue_during_a_bus_outage_and_all_events_arrive_afterwards() {
    if left_out(BusKind::Kafka.name()) {
        return;
    }
    let outage = Duration::from_secs(env_number("ONCEWARD_OUTAGE_S").unwrap_or(OUTAGE_S));
    let mut broker = PrivateBroker::start(BusKind::Kafka).await;
    let server = TestServer::start_with(settings(), broker.bus().url.as_deref()).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let mut before = Vec::new();
    for _ in 0..RESPONDENTS_BEFORE {
        before.extend(respond(&author, &link).await);
    }
    let shown = async || author.get(&format!("/api/surveys/{survey}/live")).await.with_status(200);
    let counted = |live: &Value| live["events"]["counted"].as_i64().expect("a count");
    let all_counted = async |respondents: i64| {
        eventually("all events are counted in the live view", async || {
            (counted(&shown().await) >= respondents * EVENTS_PER_RESPONDENT).then_some(())
        })
        .await;
    };
    all_counted(RESPONDENTS_BEFORE).await;

    broker.kill().await;
    let killed_at = Instant::now();
    let (mut during, mut respondents) = (Vec::new(), RESPONDENTS_BEFORE);
    while killed_at.elapsed() < outage || respondents < 2 * RESPONDENTS_BEFORE {
        during.extend(respond(&author, &link).await);
        respondents += 1;
    }
    assert_eq!(
        counted(&shown().await),
        RESPONDENTS_BEFORE * EVENTS_PER_RESPONDENT,
        "events were counted although the bus was stopped"
    );
    broker.restart().await;
    let restarted_at = Instant::now();
    all_counted(respondents).await;
    let drained = restarted_at.elapsed();

    let (before_p95, during_p95) = (p95(&mut before), p95(&mut during));
    let bound = 10 * before_p95 + Duration::from_secs(1);
    assert!(during_p95 <= bound, "requests waited for the bus: p95 {during_p95:?} during, {before_p95:?} before");
    let live = shown().await;
    assert_eq!(counted(&live), respondents * EVENTS_PER_RESPONDENT, "an event was counted twice");
    assert_eq!(live["sessions"]["completed"], respondents);
    println!(
        "outage drill of surveys: bus stopped for {:.1} s, {} respondents meanwhile, all events counted {:.2} s after its restart; \
         request latency before {}, during {}",
        (restarted_at - killed_at).as_secs_f64(),
        respondents - RESPONDENTS_BEFORE,
        drained.as_secs_f64(),
        p50_and_max(before),
        p50_and_max(during),
    );
}

/// Starts a session, answers and completes it. Returns the duration of each request.
async fn respond(author: &AuthorClient<'_>, link: &str) -> [Duration; 3] {
    let starting = Instant::now();
    let respondent = author.respondent(link).await;
    let answering = Instant::now();
    respondent.answer("only", 1, json!({"sex": "f", "region": "north"})).await.with_status(200);
    let completing = Instant::now();
    assert_eq!(respondent.complete().await.with_status(200), json!({"status": "completed"}));
    [answering - starting, completing - answering, completing.elapsed()]
}

/// Sorts the durations and returns the 95th percentile.
fn p95(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[(times.len() * 95).div_ceil(100) - 1]
}

fn p50_and_max(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let max = times.last().copied().unwrap_or_default();
    format!("p50 {:.1} ms, max {:.1} ms", ms(times[times.len() / 2]), ms(max))
}

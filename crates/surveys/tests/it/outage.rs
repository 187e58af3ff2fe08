//! The outage drill of the specification: the bus is away under load, and respondents do not notice.
//!
//! `ONCEWARD_OUTAGE_S` sets for how long (6 s without it).

use crate::support::{Author, House, settings, short_definition};
use onceward::transport::BusKind;
use onceward_testkit::{PrivateBroker, eventually, left_out, variable};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const OUTAGE_S: u64 = 6;
const RESPONDENTS_BEFORE: i64 = 20;
/// A session is begun, answered once and completed.
const EVENTS_OF_A_RESPONDENT: i64 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn respondents_go_on_while_the_bus_is_away_and_all_is_told_when_it_is_back() {
    if left_out(BusKind::Kafka.name()) {
        return;
    }
    let away = Duration::from_secs(variable("ONCEWARD_OUTAGE_S").unwrap_or(OUTAGE_S));
    let mut broker = PrivateBroker::start(BusKind::Kafka).await;
    let house = House::with(settings(), broker.bus().url.as_deref()).await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    let (_, link) = author.collector(survey, json!({})).await;
    let mut before = Vec::new();
    for _ in 0..RESPONDENTS_BEFORE {
        before.extend(respond(&author, &link).await);
    }
    let shown = async || author.get(&format!("/api/surveys/{survey}/live")).await.with_status(200);
    let counted = |live: &Value| live["events"]["counted"].as_i64().expect("a count");
    let all_counted = async |respondents: i64| {
        eventually("all that respondents did is shown live", async || {
            (counted(&shown().await) >= respondents * EVENTS_OF_A_RESPONDENT).then_some(())
        })
        .await;
    };
    all_counted(RESPONDENTS_BEFORE).await;

    broker.kill().await;
    let gone_at = Instant::now();
    let (mut during, mut respondents) = (Vec::new(), RESPONDENTS_BEFORE);
    while gone_at.elapsed() < away || respondents < 2 * RESPONDENTS_BEFORE {
        during.extend(respond(&author, &link).await);
        respondents += 1;
    }
    assert_eq!(counted(&shown().await), RESPONDENTS_BEFORE * EVENTS_OF_A_RESPONDENT, "the bus was not away");
    broker.restart().await;
    let back_at = Instant::now();
    all_counted(respondents).await;
    let drained = back_at.elapsed();

    let live = shown().await;
    assert_eq!(counted(&live), respondents * EVENTS_OF_A_RESPONDENT, "something was told twice");
    assert_eq!(live["sessions"]["completed"], respondents);
    println!(
        "outage drill of surveys: away for {:.1} s, {} respondents meanwhile, all shown {:.2} s after its return; \
         request latency before {}, during {}",
        (back_at - gone_at).as_secs_f64(),
        respondents - RESPONDENTS_BEFORE,
        drained.as_secs_f64(),
        middle_and_worst(before),
        middle_and_worst(during),
    );
}

/// Begins, answers and completes; gives how long each request took.
async fn respond(author: &Author<'_>, link: &str) -> [Duration; 3] {
    let began = Instant::now();
    let respondent = author.respondent(link).await;
    let answering = Instant::now();
    respondent.answer("only", 1, json!({"sex": "f", "region": "north"})).await.with_status(200);
    let completing = Instant::now();
    assert_eq!(respondent.complete().await.with_status(200), json!({"status": "completed"}));
    [answering - began, completing - answering, completing.elapsed()]
}

fn middle_and_worst(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let worst = times.last().copied().unwrap_or_default();
    format!("p50 {:.1} ms, worst {:.1} ms", ms(times[times.len() / 2]), ms(worst))
}

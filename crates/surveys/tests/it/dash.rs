//! The live view: what happens in a survey is counted once, and shown to those who may see it.

use crate::support::*;
use onceward::envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, IdempotencyKey};
use onceward::{Event, TenantId, transport::Parcel, transport::wire};
use onceward_surveys::{
    events::{
        AnswerUpserted, SessionCompleted, SessionStarted, SessionTerminated, SurveyEvent, TerminationReason, publish,
    },
    service,
};
use onceward_testkit::{TestPlatform, eventually, redis_url};
use serde_json::{Map, Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

const KILL_COUNTING: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%dash_count%'";

/// Those of one session, without a survey that was ever made: counting asks for none.
#[derive(Clone, Copy)]
struct Ids {
    session_id: Uuid,
    survey_id: Uuid,
    collector_id: Uuid,
}

impl Ids {
    fn of(survey_id: Uuid) -> Self {
        Self { session_id: Uuid::now_v7(), survey_id, collector_id: survey_id }
    }

    fn started(self) -> SessionStarted {
        let Self { session_id, survey_id, collector_id } = self;
        SessionStarted { session_id, survey_id, collector_id, version: 1 }
    }

    fn page(self, page_index: u32) -> AnswerUpserted {
        let Self { session_id, survey_id, collector_id } = self;
        let page_id = format!("p{page_index}");
        AnswerUpserted { session_id, survey_id, collector_id, page_id, page_index, question_count: 1 }
    }

    fn completed(self) -> SessionCompleted {
        let Self { session_id, survey_id, collector_id } = self;
        SessionCompleted { session_id, survey_id, collector_id, version: 1, pages: 2, duration_ms: 5 }
    }

    fn terminated(self, reason: TerminationReason) -> SessionTerminated {
        let Self { session_id, survey_id, collector_id } = self;
        SessionTerminated { session_id, survey_id, collector_id, version: 1, reason, page_id: None }
    }
}

async fn tell<E: SurveyEvent>(platform: &TestPlatform, tenant: &str, event: &E) {
    let mut tx = platform.db().begin(platform.scope(tenant)).await.expect("a transaction");
    publish(&mut tx, event).await.expect("the event fits its contract");
    tx.commit().await.expect("the commit works");
}

async fn counted(owner: &Client, survey: Uuid) -> i64 {
    let sql = "SELECT coalesce(sum(events), 0)::bigint FROM surveys.dash_progress WHERE survey_id = $1";
    owner.query_one(sql, &[&survey]).await.expect("a count").get(0)
}

/// Sessions by where they stand: the last page, the state, how many.
async fn standings(owner: &Client, survey: Uuid) -> Vec<(String, String, i64)> {
    let sql = "SELECT page_id, state, sum(n)::bigint FROM surveys.dash_standing WHERE survey_id = $1
               GROUP BY page_id, state HAVING sum(n) <> 0 ORDER BY page_id, state";
    let rows = owner.query(sql, &[&survey]).await.expect("rows");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn wait_for(owner: &Client, survey: Uuid, events: i64) {
    eventually("all is counted", || async { (counted(owner, survey).await >= events).then_some(()) }).await;
    assert_eq!(counted(owner, survey).await, events);
}

/// The live view of the survey, once it says what `wanted` looks for.
async fn live(author: &Author<'_>, survey: Uuid, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually("the live view shows it", || async {
        let live = author.get(&format!("/api/surveys/{survey}/live")).await.with_status(200);
        wanted(&live).then_some(live)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_respondents_do_is_shown_with_quotas_pages_and_reasons() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&definition()).await;
    let condition = json!({"equals": {"question": "sex", "value": "f"}});
    author.quotas(survey, &json!({"buckets": [{"name": "women", "condition": condition, "target": 2}]})).await;
    let (_, link) = author.collector(survey, json!({"name": "panel"})).await;
    let empty = live(&author, survey, |_| true).await;
    assert_eq!((&empty["sessions"]["started"], &empty["events"]["newest_at"]), (&json!(0), &Value::Null));

    let (ada, bob, cal, dot) = (
        author.respondent(&link).await,
        author.respondent(&link).await,
        author.respondent(&link).await,
        author.respondent(&link).await,
    );
    ada.answer("who", 1, json!({"age": 30, "sex": "f"})).await.with_status(200);
    ada.answer("what", 1, json!({})).await.with_status(200);
    ada.complete().await.with_status(200);
    bob.answer("who", 1, json!({"age": 12, "sex": "m"})).await.with_status(200);
    cal.answer("who", 1, json!({"age": 40, "sex": "m"})).await.with_status(200);
    cal.leave().await.with_status(200);
    dot.answer("who", 1, json!({"age": 41, "sex": "f"})).await.with_status(200);

    // 4 began, 5 pages, 2 reserved and 1 filled, 1 completed, 2 ended otherwise.
    let shown = live(&author, survey, |live| live["events"]["counted"] == 15).await;
    let terminated = json!({"by_respondent": 1, "screened_out": 1});
    let sessions = json!({"started": 4, "active": 1, "completed": 1, "screened_out": 1, "terminated": terminated});
    assert_eq!(shown["sessions"], sessions);
    let page =
        |id: &str| shown["pages"].as_array().unwrap().iter().find(|page| page["page_id"] == id).cloned().unwrap();
    let who = json!({"page_id": "who", "page_index": 0, "reached": 4, "here": 1, "dropped": 1});
    assert_eq!(page("who"), who);
    assert_eq!((&page("what")["reached"], &page("what")["dropped"]), (&json!(1), &json!(0)));
    let women = &shown["quotas"][0];
    assert_eq!((&women["name"], &women["filled"], &women["reserved"]), (&json!("women"), &json!(1), &json!(1)));
    let collector = &shown["collectors"][0];
    assert_eq!(
        (&collector["name"], &collector["started"], &collector["completed"]),
        (&json!("panel"), &json!(4), &json!(1))
    );
    assert!(shown["events"]["per_second"].as_f64().unwrap() > 0.0);
    assert!(shown["events"]["delay_ms"].is_i64() && shown["events"]["newest_age_ms"].is_i64());
    let minutes = shown["minutes"].as_array().unwrap().iter();
    assert_eq!(minutes.map(|minute| minute["events"].as_i64().unwrap()).sum::<i64>(), 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_in_any_order_count_the_same() {
    let house = House::open().await;
    let (platform, survey) = (&house.platform, Uuid::now_v7());
    let (late, odd, gone) = (Ids::of(survey), Ids::of(survey), Ids::of(survey));
    for page in [1, 0, 1] {
        tell(platform, "acme", &late.page(page)).await;
    }
    tell(platform, "acme", &odd.completed()).await;
    wait_for(&house.owner, survey, 4).await;
    assert_eq!(
        standings(&house.owner, survey).await,
        [(String::new(), "completed".into(), 1), ("p1".into(), "active".into(), 1)]
    );

    tell(platform, "acme", &late.started()).await;
    tell(platform, "acme", &odd.page(1)).await;
    tell(platform, "acme", &odd.started()).await;
    tell(platform, "acme", &gone.terminated(TerminationReason::Expired)).await;
    tell(platform, "acme", &gone.page(0)).await;
    wait_for(&house.owner, survey, 9).await;
    let expected = [("p0", "expired", 1), ("p1", "active", 1), ("p1", "completed", 1)];
    assert_eq!(
        standings(&house.owner, survey).await,
        expected.map(|(page, state, n)| (page.to_owned(), state.to_owned(), n))
    );
}

/// An event as another program would put it on the bus.
fn parcel<E: Event>(event: &E, key: &str) -> Parcel {
    let tenant_id = TenantId::new("acme").expect("a valid tenant");
    let envelope = Envelope {
        event_id: Uuid::now_v7(),
        event_type: E::TYPE.parse().expect("an event type"),
        schema_version: ENVELOPE_SCHEMA_VERSION,
        tenant_id: tenant_id.clone(),
        correlation_id: CorrelationId::generate(),
        causation_id: None,
        idempotency_key: IdempotencyKey::new(key).expect("a valid key"),
        actor: None,
        occurred_at: jiff::Timestamp::now(),
        extensions: Map::new(),
        payload: serde_json::to_value(event).expect("an event is JSON").into(),
        trace: None,
    };
    let topic = event.topic(&tenant_id);
    Parcel {
        id: envelope.event_id,
        topic: std::sync::Arc::new(topic.parse().expect("a topic")),
        ordering_key: event.ordering_key(),
        priority: 0,
        headers: [(wire::TOPIC, topic)].into_iter().collect(),
        body: envelope.to_json_bytes().expect("an envelope is JSON").into(),
        expected: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_the_bus_delivers_many_times_counts_once() {
    let url = tokio::task::spawn_blocking(redis_url).await.expect("a server");
    let house = House::with(settings(), Some(&url)).await;
    let (survey, broker) = (Uuid::now_v7(), house.platform.broker());
    broker.declare().await.expect("the queues can be made");
    let session = Ids::of(survey);
    let copy = parcel(&session.started(), "started once");
    broker.publish(vec![copy.clone(); 50]).await.expect("the bus takes them");
    wait_for(&house.owner, survey, 1).await;
    broker.publish(vec![copy; 50]).await.expect("the bus takes them");
    broker.publish(vec![parcel(&session.completed(), "completed once")]).await.expect("the bus takes it");
    wait_for(&house.owner, survey, 2).await;
    assert_eq!(standings(&house.owner, survey).await, [(String::new(), "completed".into(), 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_die_in_the_middle_count_nothing_twice_and_forget_nothing() {
    const SESSIONS: i64 = 400;
    const KILLS: i64 = 6;
    let platform = TestPlatform::new(vec![service(settings())]).await;
    let (owner, survey) = (platform.database().owner().await, Uuid::now_v7());
    let telling = async {
        for _ in 0..SESSIONS {
            let session = Ids::of(survey);
            tell(&platform, "acme", &session.started()).await;
            tell(&platform, "acme", &session.page(0)).await;
            tell(&platform, "acme", &session.completed()).await;
        }
    };
    let killing = async {
        for round in 1..=KILLS {
            let (mut worker, _stop) = platform.another_instance();
            worker.run_consumers();
            let some = 3 * SESSIONS * round / (KILLS + 2);
            eventually("some are counted", || async { (counted(&owner, survey).await >= some).then_some(()) }).await;
            // First whatever it has under way in the database, then the worker itself.
            owner.query_one(KILL_COUNTING, &[]).await.expect("connections can be cut");
            drop(worker);
        }
    };
    tokio::join!(telling, killing);
    let (mut worker, _stop) = platform.another_instance();
    worker.run_consumers();
    wait_for(&owner, survey, 3 * SESSIONS).await;
    assert_eq!(standings(&owner, survey).await, [("p0".into(), "completed".into(), SESSIONS)]);
    let tallied = "SELECT sum(n)::bigint FROM surveys.dash_tally WHERE survey_id = $1";
    let tallied: i64 = owner.query_one(tallied, &[&survey]).await.expect("a sum").get(0);
    assert_eq!(tallied, 3 * SESSIONS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_with_equal_ids_see_their_own_counts() {
    let house = House::open().await;
    let (acme, other) = (house.author("acme"), house.author("other"));
    let survey = acme.survey(&short_definition()).await;
    let copy =
        "INSERT INTO surveys.survey (tenant_id, survey_id, title) SELECT 'other', survey_id, title FROM surveys.survey";
    house.owner.execute(copy, &[]).await.expect("a survey of the same id");
    let session = Ids::of(survey);
    tell(&house.platform, "acme", &session.started()).await;
    tell(&house.platform, "acme", &session.completed()).await;
    tell(&house.platform, "other", &session.started()).await;
    let ours = live(&acme, survey, |live| live["events"]["counted"] == 2).await;
    let theirs = live(&other, survey, |live| live["events"]["counted"] == 1).await;
    assert_eq!((&ours["sessions"]["completed"], &ours["sessions"]["active"]), (&json!(1), &json!(0)));
    assert_eq!((&theirs["sessions"]["completed"], &theirs["sessions"]["active"]), (&json!(0), &json!(1)));
    let third = house.author("third").get(&format!("/api/surveys/{survey}/live")).await;
    assert_eq!(third.problem(404), "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_too_many_would_show_in_the_figure_that_is_watched() {
    let house = House::open().await;
    let author = house.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "all", "target": 1}]})).await;
    let figure = || async {
        let metrics = house.http.get(format!("{}/metrics", house.url)).send().await.expect("an answer");
        let metrics = metrics.text().await.expect("text");
        let line = metrics.lines().find_map(|line| line.strip_prefix("surveys_quota_overfill "));
        line.map(|value| value.parse::<f64>().expect("a number"))
    };
    assert_eq!(figure().await, Some(0.0));
    let broken = "ALTER TABLE surveys.quota_bucket DROP CONSTRAINT quota_never_overfills;
                  UPDATE surveys.quota_bucket SET reserved_n = 3";
    house.owner.batch_execute(broken).await.expect("what must not be can be made by the owner");
    eventually("it shows", || async { figure().await.filter(|places| *places == 2.0) }).await;
}

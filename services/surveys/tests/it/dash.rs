//! The live view: every event in a survey is counted once, and shown to authorized users only.

use crate::support::*;
use onceward::envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, IdempotencyKey};
use onceward::{Event, TenantId, broker::Parcel, broker::wire};
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

/// The ids of one session, for a survey that was never created: counting does not need one.
#[derive(Clone, Copy)]
pub struct SessionIds {
    pub session_id: Uuid,
    survey_id: Uuid,
    collector_id: Uuid,
}

impl SessionIds {
    pub fn new_session(survey_id: Uuid) -> Self {
        Self { session_id: Uuid::now_v7(), survey_id, collector_id: survey_id }
    }

    pub fn started(self) -> SessionStarted {
        let Self { session_id, survey_id, collector_id } = self;
        SessionStarted { session_id, survey_id, collector_id, version: 1 }
    }

    fn page(self, page_index: u32) -> AnswerUpserted {
        let Self { session_id, survey_id, collector_id } = self;
        let page_id = format!("p{page_index}");
        let (next_page_id, next_page_index) = (Some(format!("p{}", page_index + 1)), Some(page_index + 1));
        let question_count = 1;
        AnswerUpserted {
            session_id,
            survey_id,
            collector_id,
            page_id,
            page_index,
            question_count,
            next_page_id,
            next_page_index,
        }
    }

    pub fn completed(self) -> SessionCompleted {
        let Self { session_id, survey_id, collector_id } = self;
        SessionCompleted { session_id, survey_id, collector_id, version: 1, pages: 2, duration_ms: 5 }
    }

    fn terminated(self, reason: TerminationReason) -> SessionTerminated {
        let Self { session_id, survey_id, collector_id } = self;
        SessionTerminated { session_id, survey_id, collector_id, version: 1, reason, page_id: None }
    }
}

pub async fn publish_event<E: SurveyEvent>(platform: &TestPlatform, tenant: &str, event: &E) {
    let mut tx = platform.db().begin(platform.scope(tenant)).await.expect("a transaction");
    publish(&mut tx, event).await.expect("the event matches its schema");
    tx.commit().await.expect("the commit succeeds");
}

async fn count_of(owner: &Client, survey: Uuid) -> i64 {
    let sql = "SELECT coalesce(sum(events), 0)::bigint FROM surveys.dash_progress WHERE survey_id = $1";
    owner.query_one(sql, &[&survey]).await.expect("a count").get(0)
}

/// Returns the number of sessions by last page and state.
async fn positions(owner: &Client, survey: Uuid) -> Vec<(String, String, i64)> {
    let sql = "SELECT page_id, state, sum(n)::bigint FROM surveys.dash_standing WHERE survey_id = $1
               GROUP BY page_id, state HAVING sum(n) <> 0 ORDER BY page_id, state";
    let rows = owner.query(sql, &[&survey]).await.expect("rows");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

pub async fn wait_until_counted(owner: &Client, survey: Uuid, events: i64) {
    eventually("all events are counted", || async { (count_of(owner, survey).await >= events).then_some(()) }).await;
    assert_eq!(count_of(owner, survey).await, events);
}

/// Returns a funnel page's counts: reached, here, left, turned away.
pub fn counts(page: &Value) -> (String, [i64; 4]) {
    let count = |name: &str| page[name].as_i64().expect("a count");
    let all = [count("reached"), count("here"), count("left"), count("turned_away")];
    (page["page_id"].as_str().expect("an id").to_owned(), all)
}

/// Returns the survey's live view once it satisfies `expected`.
pub async fn live(author: &AuthorClient<'_>, survey: Uuid, expected: impl Fn(&Value) -> bool) -> Value {
    eventually("the live view shows the expected state", || async {
        let live = author.get(&format!("/api/surveys/{survey}/live")).await.with_status(200);
        expected(&live).then_some(live)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_live_view_shows_sessions_quotas_pages_and_reasons() {
    let server = TestServer::start().await;
    let author = server.author("acme");
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

    // 4 started, 5 pages, 2 reserved and 1 filled, 1 completed, 2 ended otherwise.
    let shown = live(&author, survey, |live| live["events"]["counted"] == 15).await;
    let terminated = json!({"by_respondent": 1, "screened_out": 1});
    let sessions =
        json!({"started": 4, "active": 1, "completed": 1, "screened_out": 1, "left": 1, "terminated": terminated});
    assert_eq!(shown["sessions"], sessions);
    let pages: Vec<_> = shown["pages"].as_array().unwrap().iter().map(counts).collect();
    let expected = [("who", 4, 0, 0, 1), ("what", 3, 1, 1, 0), ("why", 1, 0, 0, 0), ("", 1, 0, 0, 0)];
    assert_eq!(pages, expected.map(|(id, reached, here, left, out)| (id.to_owned(), [reached, here, left, out])));
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
async fn events_are_counted_alike_in_any_order() {
    let server = TestServer::start().await;
    let (platform, survey) = (&server.platform, Uuid::now_v7());
    let (late, odd, gone) =
        (SessionIds::new_session(survey), SessionIds::new_session(survey), SessionIds::new_session(survey));
    for page in [1, 0, 1] {
        publish_event(platform, "acme", &late.page(page)).await;
    }
    publish_event(platform, "acme", &odd.completed()).await;
    wait_until_counted(&server.owner, survey, 4).await;
    assert_eq!(
        positions(&server.owner, survey).await,
        [("@end".into(), "completed".into(), 1), ("p2".into(), "active".into(), 1)]
    );

    publish_event(platform, "acme", &late.started()).await;
    publish_event(platform, "acme", &odd.page(1)).await;
    publish_event(platform, "acme", &odd.started()).await;
    publish_event(platform, "acme", &gone.terminated(TerminationReason::Expired)).await;
    publish_event(platform, "acme", &gone.page(0)).await;
    wait_until_counted(&server.owner, survey, 9).await;
    let expected = [("@end", "completed", 1), ("p1", "expired", 1), ("p2", "active", 1)];
    assert_eq!(
        positions(&server.owner, survey).await,
        expected.map(|(page, state, n)| (page.to_owned(), state.to_owned(), n))
    );
}

/// An event as another program would publish it on the bus.
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
        topic: std::sync::Arc::new(topic.clone()),
        ordering_key: event.ordering_key(),
        priority: 0,
        headers: [(wire::TOPIC, topic.to_string())].into_iter().collect(),
        body: envelope.to_json_bytes().expect("an envelope is JSON").into(),
        expected: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_delivered_many_times_is_counted_once() {
    let url = tokio::task::spawn_blocking(redis_url).await.expect("a server");
    let server = TestServer::start_with(settings(), Some(&url)).await;
    let (survey, broker) = (Uuid::now_v7(), server.platform.broker());
    broker.declare().await.expect("the queues can be declared");
    let session = SessionIds::new_session(survey);
    let copy = parcel(&session.started(), "started once");
    broker.publish(vec![copy.clone(); 50]).await.expect("the broker accepts the messages");
    wait_until_counted(&server.owner, survey, 1).await;
    broker.publish(vec![copy; 50]).await.expect("the broker accepts the messages");
    broker.publish(vec![parcel(&session.completed(), "completed once")]).await.expect("the broker accepts the message");
    wait_until_counted(&server.owner, survey, 2).await;
    assert_eq!(positions(&server.owner, survey).await, [("@end".into(), "completed".into(), 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_count_every_event_exactly_once() {
    const SESSIONS: i64 = 400;
    const KILLS: i64 = 6;
    let platform = TestPlatform::new(vec![service(settings())]).await;
    let (owner, survey) = (platform.database().owner().await, Uuid::now_v7());
    let publishing = async {
        for _ in 0..SESSIONS {
            let session = SessionIds::new_session(survey);
            publish_event(&platform, "acme", &session.started()).await;
            publish_event(&platform, "acme", &session.page(0)).await;
            publish_event(&platform, "acme", &session.completed()).await;
        }
    };
    let killing = async {
        for round in 1..=KILLS {
            let (mut worker, _stop) = platform.another_instance();
            worker.run_consumers();
            let some = 3 * SESSIONS * round / (KILLS + 2);
            eventually("some events are counted", || async { (count_of(&owner, survey).await >= some).then_some(()) })
                .await;
            // First the worker's running queries in the database, then the worker itself.
            owner.query_one(KILL_COUNTING, &[]).await.expect("connections can be terminated");
            drop(worker);
        }
    };
    tokio::join!(publishing, killing);
    let (mut worker, _stop) = platform.another_instance();
    worker.run_consumers();
    wait_until_counted(&owner, survey, 3 * SESSIONS).await;
    assert_eq!(positions(&owner, survey).await, [("@end".into(), "completed".into(), SESSIONS)]);
    let tallied = "SELECT sum(n)::bigint FROM surveys.dash_tally WHERE survey_id = $1";
    let tallied: i64 = owner.query_one(tallied, &[&survey]).await.expect("a sum").get(0);
    assert_eq!(tallied, 3 * SESSIONS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_with_equal_ids_see_only_their_own_counts() {
    let server = TestServer::start().await;
    let (acme, other) = (server.author("acme"), server.author("other"));
    let survey = acme.survey(&short_definition()).await;
    let copy =
        "INSERT INTO surveys.survey (tenant_id, survey_id, title) SELECT 'other', survey_id, title FROM surveys.survey";
    server.owner.execute(copy, &[]).await.expect("a survey with the same id");
    let session = SessionIds::new_session(survey);
    publish_event(&server.platform, "acme", &session.started()).await;
    publish_event(&server.platform, "acme", &session.completed()).await;
    publish_event(&server.platform, "other", &session.started()).await;
    let acme_view = live(&acme, survey, |live| live["events"]["counted"] == 2).await;
    let other_view = live(&other, survey, |live| live["events"]["counted"] == 1).await;
    assert_eq!((&acme_view["sessions"]["completed"], &acme_view["sessions"]["active"]), (&json!(1), &json!(0)));
    assert_eq!((&other_view["sessions"]["completed"], &other_view["sessions"]["active"]), (&json!(0), &json!(1)));
    let third = server.author("third").get(&format!("/api/surveys/{survey}/live")).await;
    assert_eq!(third.problem(404), "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overfilled_bucket_shows_in_the_overfill_metric() {
    let server = TestServer::start().await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "all", "target": 1}]})).await;
    let overfill = || async {
        let metrics = server.http.get(format!("{}/metrics", server.url)).send().await.expect("a response");
        let metrics = metrics.text().await.expect("text");
        let line = metrics.lines().find_map(|line| line.strip_prefix("surveys_quota_overfill "));
        line.map(|value| value.parse::<f64>().expect("a number"))
    };
    assert_eq!(overfill().await, Some(0.0));
    let broken = "ALTER TABLE surveys.quota_bucket DROP CONSTRAINT quota_never_overfills;
                  UPDATE surveys.quota_bucket SET reserved_n = 3";
    server.owner.batch_execute(broken).await.expect("the owner can overfill a bucket");
    eventually("the metric shows the overfill", || async { overfill().await.filter(|places| *places == 2.0) }).await;
}

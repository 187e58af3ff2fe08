//! Survey events as another service receives them: on every bus, and while contracts change.

use crate::support::*;
use onceward::{
    Consumer, Envelope, Event, Failure, Handler, Platform, Queue, Received, Service, TenantId, Topology, Tx,
    broker::BusKind, message_log::stats::queue_stats, messaging::AnyHandler, outbox,
};
use onceward_surveys::{
    events::SessionCompleted,
    topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS},
};
use onceward_testkit::{TestPlatform, eventually, kafka_url, left_out, rabbitmq_url, redis_url};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc};
use uuid::Uuid;

type ReceivedMessages = Arc<Mutex<Vec<Value>>>;

/// Records every envelope that arrives.
struct RecordEnvelopes(ReceivedMessages);

impl AnyHandler for RecordEnvelopes {
    async fn handle_all(&self, _: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        let mut received_messages = self.0.lock();
        received_messages.extend(batch.iter().map(|envelope| envelope.to_value().expect("an envelope is JSON")));
        Ok(())
    }
}

fn listener(received_messages: &ReceivedMessages) -> Service {
    let exchanges = [SESSIONS, ANSWERS, QUOTA, COLLECTORS];
    let topology = Topology::new().queue(Queue::work("listener.all.v1"));
    let topology =
        exchanges.iter().fold(topology, |topology, exchange| topology.bind(*exchange, "#", "listener.all.v1"));
    let consumer =
        Consumer::transactional("listen", "listener.all.v1").on_any(RecordEnvelopes(received_messages.clone()));
    Service::new("listener").topology(topology).consumer(consumer)
}

/// The last event of each key of the sessions below, and how often it is published.
const LAST_EVENTS: &[(&str, usize)] = &[
    ("session.completed", 2),
    ("session.terminated", 1),
    ("quota.finalized", 2),
    ("quota.bucket_closed", 1),
    ("collector.closed", 1),
];

/// Returns each message once, where it arrived first: a turn that is undone hands its messages to the handler again.
fn without_repetitions(received: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    received.iter().filter(|one| seen.insert(one["eventId"].to_string())).cloned().collect()
}

/// Runs a whole session with quotas, started by an invite, and checks what another service receives.
async fn every_event_arrives_in_order(bus: Option<&str>) {
    let received_messages = ReceivedMessages::default();
    let server = TestServer::start_beside(settings(), bus, vec![listener(&received_messages)]).await;
    let author = server.author("acme");
    let survey = author.survey(&short_definition()).await;
    author.quotas(survey, &json!({"buckets": [{"name": "all", "target": 2}]})).await;
    let (collector, _) = author.collector(survey, json!({"kind": "invite"})).await;
    let invites = author.invites(collector, 3).await;
    let [ada, eve] = [author.respondent(&invites[0]).await, author.respondent(&invites[1]).await];
    for one in [&ada, &eve] {
        one.answer("only", 1, json!({"sex": "f", "region": "north"})).await.with_status(200);
        one.complete().await.with_status(200);
    }
    author.respondent(&invites[2]).await;
    author.post_empty(&format!("/api/collectors/{collector}/close")).await.with_status(200);
    let all = eventually("all events have arrived", || async {
        let all = without_repetitions(&received_messages.lock());
        let has = |kind: &str, count: usize| all.iter().filter(|one| one["type"] == kind).count() >= count;
        LAST_EVENTS.iter().all(|(kind, count)| has(kind, *count)).then_some(all)
    })
    .await;

    let of = |id: Uuid, part: &str| -> Vec<&str> {
        let types = all.iter().filter(|one| one["payload"][part] == json!(id)).map(|one| one["type"].as_str().unwrap());
        types.filter(|kind| kind.starts_with(part.trim_end_matches("_id"))).collect()
    };
    assert_eq!(of(ada.session, "session_id"), ["session.started", "session.completed"], "in the order of the session");
    let at_collector: Vec<&str> = all
        .iter()
        .filter(|one| one["payload"].as_object().unwrap().len() <= 4)
        .filter_map(|one| one["type"].as_str())
        .filter(|kind| kind.starts_with("collector") || kind.starts_with("invite"))
        .collect();
    assert_eq!(
        at_collector,
        ["collector.opened", "invite.consumed", "invite.consumed", "invite.consumed", "collector.closed"]
    );
    let at_bucket: Vec<&str> =
        all.iter().filter_map(|one| one["type"].as_str()).filter(|kind| kind.starts_with("quota")).collect();
    assert_eq!(
        at_bucket,
        ["quota.reserved", "quota.reserved", "quota.finalized", "quota.finalized", "quota.bucket_closed"]
    );
    let started = all.iter().find(|one| one["type"] == "session.started").expect("the event was received");
    assert_eq!((&started["version"], &started["tenantId"]), (&json!(1), &json!("acme")));
    assert_eq!((&started["surveyId"], &started["sessionId"]), (&json!(survey), &started["payload"]["session_id"]));
    let full =
        all.iter().find(|one| one["type"] == "session.terminated").expect("the third session found the bucket full");
    assert_eq!(full["payload"]["reason"], "quota_full");
    let texts = serde_json::to_string(&all).unwrap();
    assert!(!texts.contains("north"), "no message contains an answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_in_order_on_postgres() {
    every_event_arrives_in_order(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_in_order_on_kafka() {
    if !left_out("kafka") {
        every_event_arrives_in_order(Some(&kafka_url())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_in_order_on_rabbitmq() {
    if !left_out("rabbitmq") {
        every_event_arrives_in_order(Some(&rabbitmq_url())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_in_order_on_redis() {
    if !left_out("redis") {
        every_event_arrives_in_order(Some(&redis_url())).await;
    }
}

/// The next version of an event. It is incompatible with the previous one, so both exist for a while.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionCompletedV2 {
    session_id: Uuid,
    duration_s: f64,
}

impl Event for SessionCompletedV2 {
    const TYPE: &'static str = "session.completed.v2";
    const EXCHANGE: &'static str = SESSIONS;

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.session.completed")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.session_id.to_string())
    }
}

const V2: &str = r#"{"$id": "session.completed.v2", "type": "object", "required": ["session_id", "duration_s"],
    "properties": {"session_id": {"type": "string"}, "duration_s": {"type": "number"}}}"#;

/// Records which version arrived.
struct RecordVersion<E>(ReceivedMessages, std::marker::PhantomData<E>);

impl<E: Event + 'static> Handler for RecordVersion<E> {
    type Event = E;

    async fn handle(&self, _: &mut Tx, received: &Received<'_, E>) -> Result<(), Failure> {
        let value = json!([E::TYPE, serde_json::to_value(&received.event).expect("JSON")["session_id"]]);
        self.0.lock().push(value);
        Ok(())
    }
}

fn record_version<E>(received_messages: &ReceivedMessages) -> RecordVersion<E> {
    RecordVersion(received_messages.clone(), std::marker::PhantomData)
}

/// A consumer of completed sessions, before or after it learns the next version.
fn reader(received_messages: &ReceivedMessages, knows_next_version: bool) -> Service {
    let topology = Topology::new().queue(Queue::work("reader.completed.v1"));
    let topology = topology.bind(SESSIONS, "tenant.*.session.completed", "reader.completed.v1");
    let consumer = Consumer::transactional("read", "reader.completed.v1")
        .on(record_version::<SessionCompleted>(received_messages));
    let service = Service::new("reader").topology(topology);
    match knows_next_version {
        true => service.schemas(&[V2]).consumer(consumer.on(record_version::<SessionCompletedV2>(received_messages))),
        false => service.consumer(consumer),
    }
}

/// Assembles surveys and a consumer, on a new database or on one that was used before.
async fn assembled(
    received_messages: &ReceivedMessages,
    knows_next_version: bool,
    database: Option<onceward_testkit::TestDb>,
) -> TestPlatform {
    let services = vec![onceward_surveys::service(settings()), reader(received_messages, knows_next_version)];
    let mut platform = match database {
        None => TestPlatform::new(services).await,
        Some(database) => {
            let platform = Platform::assemble(services).expect("the services can be assembled");
            platform.migrate(&database.config(), BusKind::Postgres).await.expect("the migrations apply");
            TestPlatform::on(database, platform)
        }
    };
    platform.run_consumers();
    platform
}

async fn wait_for(received_messages: &ReceivedMessages, expected: Value) {
    eventually("the message is received", || async { received_messages.lock().contains(&expected).then_some(()) })
        .await;
}

async fn publish(platform: &TestPlatform, event: &impl Event) {
    let mut tx = platform.db().begin(platform.scope("acme")).await.expect("a transaction");
    outbox::publish(&mut tx, event).await.expect("the event matches its schema");
    tx.commit().await.expect("the commit succeeds");
}

fn completed(session_id: Uuid) -> SessionCompleted {
    let other = Uuid::now_v7();
    SessionCompleted { session_id, survey_id: other, collector_id: other, version: 1, pages: 1, duration_ms: 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_updated_before_the_producer_receives_both_versions() {
    let received_messages = ReceivedMessages::default();
    let platform = assembled(&received_messages, true, None).await;
    let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
    publish(&platform, &completed(old)).await;
    publish(&platform, &SessionCompletedV2 { session_id: new, duration_s: 1.5 }).await;
    wait_for(&received_messages, json!(["session.completed.v1", old])).await;
    wait_for(&received_messages, json!(["session.completed.v2", new])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_version_waits_for_the_consumer_to_be_updated() {
    let received_messages = ReceivedMessages::default();
    let platform = assembled(&received_messages, false, None).await;
    let (more, next) = (Uuid::now_v7(), Uuid::now_v7());
    let other = Uuid::now_v7();
    // An additional field is not a new version: an old consumer ignores it.
    let payload = json!({"session_id": more, "survey_id": other, "collector_id": other, "version": 1, "pages": 1,
        "duration_ms": 1, "device": "phone"});
    enqueue(&platform, SessionCompleted::TYPE, more, &payload).await;
    wait_for(&received_messages, json!(["session.completed.v1", more])).await;

    // An incompatible version waits for a consumer that knows it, and is neither lost nor dead.
    enqueue(&platform, SessionCompletedV2::TYPE, next, &json!({"session_id": next, "duration_s": 1.5})).await;
    eventually("the message is deferred", || async {
        let all = queue_stats(platform.db()).await.expect("the queues can be counted");
        let queue = all.into_iter().find(|found| found.queue == "reader.completed.v1").expect("the queue");
        (queue.deferred == 1 && queue.depth == 0).then_some(())
    })
    .await;
    let (_, database) = platform.stop().await;
    let platform = assembled(&received_messages, true, Some(database)).await;
    wait_for(&received_messages, json!(["session.completed.v2", next])).await;
    let owner = platform.database().owner().await;
    let dead: i64 = owner.query_one("SELECT count(*) FROM onceward.dead_letters", &[]).await.expect("a count").get(0);
    assert_eq!((dead, received_messages.lock().len()), (0, 2));
}

/// Publishes by SQL, as a program of another release does.
async fn enqueue(platform: &TestPlatform, event_type: &str, session: Uuid, payload: &Value) {
    let sql = "SELECT onceward.enqueue('acme', $1, $2, $3, p_ordering_key => $4)";
    let topic = format!("{SESSIONS}:tenant.acme.session.completed");
    let tx = platform.db().begin(platform.scope("acme")).await.expect("a transaction");
    tx.query(sql, &[&topic, &event_type, payload, &session.to_string()]).await.expect("the message is published");
    tx.commit().await.expect("the commit succeeds");
}

//! What surveys tell, as it arrives at somebody else: on PostgreSQL and on Kafka, and while contracts change.

use crate::support::*;
use onceward::{
    Consumer, Envelope, Event, Failure, Handler, Platform, Queue, Received, Service, TenantId, Topology, Tx,
    messaging::AnyHandler, outbox, transport::BusKind, transport_postgres::stats::queue_stats,
};
use onceward_surveys::{
    events::SessionCompleted,
    topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS},
};
use onceward_testkit::{TestPlatform, eventually, kafka_url, left_out};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

type Heard = Arc<Mutex<Vec<Value>>>;

/// Keeps every envelope that comes.
struct Listen(Heard);

impl AnyHandler for Listen {
    async fn handle_all(&self, _: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        let mut heard = self.0.lock().expect("no panic while held");
        heard.extend(batch.iter().map(|envelope| envelope.to_value().expect("an envelope is JSON")));
        Ok(())
    }
}

fn listener(heard: &Heard) -> Service {
    let exchanges = [SESSIONS, ANSWERS, QUOTA, COLLECTORS];
    let topology = Topology::new().queue(Queue::work("listener.all.v1"));
    let topology =
        exchanges.iter().fold(topology, |topology, exchange| topology.bind(*exchange, "#", "listener.all.v1"));
    let consumer = Consumer::transactional("listen", "listener.all.v1").on_any(Listen(heard.clone()));
    Service::new("listener").topology(topology).consumer(consumer)
}

/// A whole session with quotas, by an invite, heard by somebody else.
async fn everything_is_heard_in_order(bus: Option<&str>) {
    let heard = Heard::default();
    let house = House::beside(settings(), bus, vec![listener(&heard)]).await;
    let author = house.author("acme");
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
    author.order(&format!("/api/collectors/{collector}/close")).await.with_status(200);
    let all = eventually("everything has arrived", || async {
        let heard = heard.lock().expect("no panic while held").clone();
        (heard.iter().any(|one| one["type"] == "collector.closed") && heard.len() >= 17).then_some(heard)
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
    let started = all.iter().find(|one| one["type"] == "session.started").expect("it was heard");
    assert_eq!((&started["version"], &started["tenantId"]), (&json!(1), &json!("acme")));
    assert_eq!((&started["surveyId"], &started["sessionId"]), (&json!(survey), &started["payload"]["session_id"]));
    let full = all.iter().find(|one| one["type"] == "session.terminated").expect("the third found it full");
    assert_eq!(full["payload"]["reason"], "quota_full");
    let texts = serde_json::to_string(&all).unwrap();
    assert!(!texts.contains("north"), "no answer is in any message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_heard_in_order_on_postgres() {
    everything_is_heard_in_order(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_heard_in_order_on_kafka() {
    if !left_out("kafka") {
        everything_is_heard_in_order(Some(&kafka_url())).await;
    }
}

/// The next version of a fact: it breaks with the one before, so both are there for a while.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CompletedV2 {
    session_id: Uuid,
    duration_s: f64,
}

impl Event for CompletedV2 {
    const TYPE: &'static str = "session.completed.v2";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("{SESSIONS}:tenant.{tenant}.session.completed")
    }

    fn ordering_key(&self) -> Option<String> {
        Some(self.session_id.to_string())
    }
}

const V2: &str = r#"{"$id": "session.completed.v2", "type": "object", "required": ["session_id", "duration_s"],
    "properties": {"session_id": {"type": "string"}, "duration_s": {"type": "number"}}}"#;

/// Notes which version came.
struct Note<E>(Heard, std::marker::PhantomData<E>);

impl<E: Event + 'static> Handler for Note<E> {
    type Event = E;

    async fn handle(&self, _: &mut Tx, received: &Received<'_, E>) -> Result<(), Failure> {
        let value = json!([E::TYPE, serde_json::to_value(&received.event).expect("JSON")["session_id"]]);
        self.0.lock().expect("no panic while held").push(value);
        Ok(())
    }
}

fn note<E>(heard: &Heard) -> Note<E> {
    Note(heard.clone(), std::marker::PhantomData)
}

/// A reader of completed sessions, as it is before or after it learns the next version.
fn reader(heard: &Heard, knows_next: bool) -> Service {
    let topology = Topology::new().queue(Queue::work("reader.completed.v1"));
    let topology = topology.bind(SESSIONS, "tenant.*.session.completed", "reader.completed.v1");
    let consumer = Consumer::transactional("read", "reader.completed.v1").on(note::<SessionCompleted>(heard));
    let service = Service::new("reader").topology(topology);
    match knows_next {
        true => service.schemas(&[V2]).consumer(consumer.on(note::<CompletedV2>(heard))),
        false => service.consumer(consumer),
    }
}

/// Surveys with a reader, on a database that may have been used before.
async fn assembled(heard: &Heard, knows_next: bool, database: Option<onceward_testkit::TestDb>) -> TestPlatform {
    let services = vec![onceward_surveys::service(settings()), reader(heard, knows_next)];
    let mut platform = match database {
        None => TestPlatform::new(services).await,
        Some(database) => {
            let platform = Platform::assemble(services).expect("they fit together");
            platform.migrate(&database.config(), BusKind::Postgres).await.expect("the migrations apply");
            TestPlatform::on(database, platform)
        }
    };
    platform.run_consumers();
    platform
}

async fn hears(heard: &Heard, expected: Value) {
    eventually("it is heard", || async { heard.lock().expect("no panic").contains(&expected).then_some(()) }).await;
}

async fn tell(platform: &TestPlatform, event: &impl Event) {
    let mut tx = platform.db().begin(platform.scope("acme")).await.expect("a transaction");
    outbox::publish(&mut tx, event).await.expect("it obeys its contract");
    tx.commit().await.expect("the commit works");
}

fn completed(session_id: Uuid) -> SessionCompleted {
    let other = Uuid::now_v7();
    SessionCompleted { session_id, survey_id: other, collector_id: other, version: 1, pages: 1, duration_ms: 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_learns_the_next_version_first_hears_both() {
    let heard = Heard::default();
    let platform = assembled(&heard, true, None).await;
    let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
    tell(&platform, &completed(old)).await;
    tell(&platform, &CompletedV2 { session_id: new, duration_s: 1.5 }).await;
    hears(&heard, json!(["session.completed.v1", old])).await;
    hears(&heard, json!(["session.completed.v2", new])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_is_first_is_heard_by_the_reader_once_it_has_learned() {
    let heard = Heard::default();
    let platform = assembled(&heard, false, None).await;
    let (more, next) = (Uuid::now_v7(), Uuid::now_v7());
    let other = Uuid::now_v7();
    // One field more is no new version: an old reader does not mind it.
    let payload = json!({"session_id": more, "survey_id": other, "collector_id": other, "version": 1, "pages": 1,
        "duration_ms": 1, "device": "phone"});
    enqueue(&platform, SessionCompleted::TYPE, more, &payload).await;
    hears(&heard, json!(["session.completed.v1", more])).await;

    // What breaks with the contract waits for somebody who knows it, and is neither lost nor dead.
    enqueue(&platform, CompletedV2::TYPE, next, &json!({"session_id": next, "duration_s": 1.5})).await;
    eventually("it is put aside", || async {
        let all = queue_stats(platform.db()).await.expect("the queues can be counted");
        let queue = all.into_iter().find(|found| found.queue == "reader.completed.v1").expect("the queue");
        (queue.deferred == 1 && queue.depth == 0).then_some(())
    })
    .await;
    let (_, database) = platform.stop().await;
    let platform = assembled(&heard, true, Some(database)).await;
    hears(&heard, json!(["session.completed.v2", next])).await;
    let owner = platform.database().owner().await;
    let dead: i64 = owner.query_one("SELECT count(*) FROM onceward.dead_letters", &[]).await.expect("a count").get(0);
    assert_eq!((dead, heard.lock().expect("no panic").len()), (0, 2));
}

/// Publishes as a program of another release does, by SQL.
async fn enqueue(platform: &TestPlatform, event_type: &str, session: Uuid, payload: &Value) {
    let sql = "SELECT onceward.enqueue('acme', $1, $2, $3, p_ordering_key => $4)";
    let topic = format!("{SESSIONS}:tenant.acme.session.completed");
    let tx = platform.db().begin(platform.scope("acme")).await.expect("a transaction");
    tx.query(sql, &[&topic, &event_type, payload, &session.to_string()]).await.expect("it is taken");
    tx.commit().await.expect("the commit works");
}

//! Bringing home what a broker has put away by itself.

use crate::{
    support::{QUEUE, bare_service, consumer, dead_letters, effects_reach, job, one_lane, publish, service},
    triage_support::{all_dead, operator, requeue},
};
use onceward::{
    messaging::collect::{Collector, Report},
    transport::{Reading, Receiver},
    transport_postgres::{PostgresBusConfig, PostgresTransport, triage},
};
use onceward_testkit::{TestPlatform, eventually, rabbitmq_url, redis_url};
use std::time::Duration;

const STORE: &str = "probe.dead";

fn collector(platform: &TestPlatform) -> Collector {
    let bus = PostgresTransport::new(platform.db().clone(), PostgresBusConfig::default());
    let readers = [(QUEUE.to_owned(), "probe".to_owned())];
    Collector::new(bus, platform.broker(), platform.platform().topology().clone(), readers.into())
}

/// A broker that is started at first use, which takes a while.
async fn started(url: fn() -> String) -> String {
    tokio::task::spawn_blocking(url).await.expect("a broker can be had")
}

/// A platform whose messages go over a broker that hands out each of them once, and nobody who handles them.
async fn unread(url: fn() -> String) -> TestPlatform {
    let services = vec![bare_service(one_lane().delivery_limit(1))];
    let mut platform = TestPlatform::on_bus(services, Some(&started(url).await)).await;
    platform.run_relay();
    platform
}

async fn open(platform: &TestPlatform, queue: &str) -> Box<dyn Receiver> {
    let reading = Reading { queue: queue.to_owned(), exclusive: true, prefetch: 10 };
    platform.broker().open(reading).await.expect("the queue can be read")
}

/// Takes messages off the work queue and hands them back until the broker has enough of it.
async fn let_die(platform: &TestPlatform, wanted: u64) {
    let holds = async |queue| platform.broker().waiting(queue).await.ok().flatten();
    eventually("the messages are on the bus", || async { (holds(QUEUE).await == Some(wanted)).then_some(()) }).await;
    let mut receiver = open(platform, QUEUE).await;
    let mut rounds = 0;
    while holds(STORE).await != Some(wanted) {
        assert!(rounds < 100, "they never die");
        receiver.receive(10, Duration::from_millis(200)).await.expect("an answer");
        receiver.give_back().await.expect("they are given back");
        rounds += 1;
    }
}

#[tokio::test]
async fn what_redis_gave_up_becomes_a_letter_once_and_can_be_put_back() {
    what_the_broker_gave_up_comes_home(unread(redis_url).await).await;
}

#[tokio::test]
async fn what_rabbitmq_gave_up_becomes_a_letter_once_and_can_be_put_back() {
    what_the_broker_gave_up_comes_home(unread(rabbitmq_url).await).await;
}

async fn what_the_broker_gave_up_comes_home(platform: TestPlatform) {
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k"), job("acme", "b").ordered_by("k")]).await;
    let_die(&platform, 2).await;
    let rehearsed = collector(&platform).rehearse(STORE, &operator()).await.expect("it can be looked at");
    assert_eq!((rehearsed.letters.len(), rehearsed.taken(), rehearsed.more), (2, 2, false));
    assert_eq!(all_dead(platform.db()).await, [] as [i64; 0], "nothing was written");
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.expect("they come home");
    assert_eq!((report.letters.len(), report.copies, report.known), (2, 0, 0));
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    let letters = triage::letters(platform.db(), &report.letters).await.unwrap();
    let letter = &letters[0];
    assert_eq!((letter.summary.queue.as_str(), letter.summary.reason.as_str()), (QUEUE, "delivery_limit"));
    assert_eq!((letter.summary.tenant.as_str(), letter.consumer.as_str()), ("acme", "probe"));
    let acts = triage::history(platform.db(), Some(letter.summary.id), None, 10).await.unwrap();
    assert_eq!((acts[0].act.as_str(), &acts[0].detail["foundIn"]), ("collected", &STORE.into()));
    assert_eq!(collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap(), Report::default());
    let fates = requeue(platform.db(), &all_dead(platform.db()).await).await;
    assert_eq!(fates.iter().map(|fate| fate.wait_ms).collect::<Vec<_>>(), [Some(0), None]);
    let order = "SELECT message->'payload'->>'name' FROM onceward.deferred ORDER BY id";
    let names: Vec<String> = owner.query(order, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_message_that_came_home_another_way_is_only_taken_off() {
    let platform = unread(redis_url).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").once_per("the key")]).await;
    let_die(&platform, 1).await;
    let landed = "SELECT onceward.record_inbox('acme', 'the key', 'probe')";
    owner.execute(landed, &[]).await.unwrap();
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap();
    assert_eq!(report, Report { known: 1, ..Report::default() });
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    assert_eq!(all_dead(platform.db()).await, [] as [i64; 0]);
}

#[tokio::test]
async fn the_copy_of_a_letter_is_only_taken_off() {
    let (probe, _calls, repair) = crate::triage_support::broken();
    let mut platform =
        TestPlatform::on_bus(vec![service(one_lane(), consumer(probe))], Some(&started(redis_url).await)).await;
    platform.run_relay();
    platform.run_consumers();
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a")]).await;
    dead_letters(&owner, 1).await;
    eventually("the copy is on the bus", || async {
        (platform.broker().waiting(STORE).await.ok().flatten() == Some(1)).then_some(())
    })
    .await;
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap();
    assert_eq!(report, Report { copies: 1, ..Report::default() });
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    let dead = all_dead(platform.db()).await;
    assert_eq!(dead.len(), 1);
    repair.done();
    requeue(platform.db(), &dead).await;
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_becomes_a_letter_as_it_is() {
    let platform = unread(redis_url).await;
    publish(platform.db(), "acme", [job("acme", "a")]).await;
    let_die(&platform, 1).await;
    let topic = onceward::topology::Topic::new("probe.dlq", "");
    let parcel = onceward::transport::Parcel {
        id: uuid::Uuid::now_v7(),
        topic: topic.into(),
        ordering_key: None,
        priority: 0,
        headers: [("x-foreign", "nul \0 inside")].into_iter().collect(),
        body: vec![0, 1, 2].into(),
        expected: true,
    };
    let verdicts = platform.broker().publish(vec![parcel]).await.expect("the bus takes it");
    assert_eq!(verdicts.len(), 1);
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap();
    assert_eq!(report.letters.len(), 2);
    let letters = triage::letters(platform.db(), &report.letters).await.unwrap();
    let foreign = letters.iter().find(|letter| letter.summary.reason == "malformed").expect("it is there");
    assert_eq!((foreign.summary.queue.as_str(), &foreign.message["bodyHex"]), (QUEUE, &"000102".into()));
    let fates = requeue(platform.db(), &[foreign.summary.id]).await;
    assert_eq!(fates[0].refusal, Some(triage::Refusal::Unreadable));
}

//! Collecting messages that a broker dead-lettered on its own.

use crate::{
    support::{QUEUE, bare_service, consumer, dead_letters, effects_reach, job, one_lane, publish, service},
    triage_support::{all_dead_letters, operator, requeue},
};
use onceward::{
    Platform,
    broker::{BusKind, Parcel, ReceiveOptions, Receiver},
    message_log::{MessageLog, MessageLogConfig, triage},
    messaging::collect::{CollectReport, DeadLetterCollector},
};
use onceward_testkit::{TestDb, TestPlatform, eventually, kafka_url, left_out, rabbitmq_url, redis_url};
use std::time::Duration;

const STORE: &str = "probe.dead";

fn collector(platform: &TestPlatform) -> DeadLetterCollector {
    let bus = MessageLog::new(platform.db().clone(), MessageLogConfig::default());
    let readers = [(QUEUE.to_owned(), "probe".to_owned())];
    DeadLetterCollector::new(bus, platform.broker(), platform.platform().topology().clone(), readers.into())
}

/// The URL of a broker that is started at first use, which takes a while.
async fn started(url: fn() -> String) -> String {
    tokio::task::spawn_blocking(url).await.expect("a broker is available")
}

/// A platform on a broker that delivers each message once, without any consumer.
async fn unread(url: fn() -> String) -> TestPlatform {
    let services = vec![bare_service(one_lane().delivery_limit(1))];
    let mut platform = TestPlatform::on_bus(services, Some(&started(url).await)).await;
    platform.run_relay();
    platform
}

async fn open(platform: &TestPlatform, queue: &str) -> Box<dyn Receiver> {
    let reading = ReceiveOptions { queue: queue.to_owned(), exclusive: true, prefetch: 10 };
    platform.broker().open(reading).await.expect("the queue can be read")
}

/// Receives messages from the work queue and returns them until the broker dead-letters them.
async fn dead_letter_on_the_bus(platform: &TestPlatform, wanted: u64) {
    let holds = async |queue| platform.broker().waiting(queue).await.ok().flatten();
    eventually("the messages are on the bus", || async { (holds(QUEUE).await == Some(wanted)).then_some(()) }).await;
    let mut receiver = open(platform, QUEUE).await;
    let mut rounds = 0;
    while holds(STORE).await != Some(wanted) {
        assert!(rounds < 100, "they never die");
        receiver.receive(10, Duration::from_millis(200)).await.expect("the query succeeds");
        receiver.return_unaccepted().await.expect("they are returned");
        rounds += 1;
    }
}

#[tokio::test]
async fn messages_dead_lettered_by_redis_are_collected_once_and_can_be_requeued() {
    if left_out("redis") {
        return;
    }
    check_collected_messages_can_be_requeued(unread(redis_url).await).await;
}

#[tokio::test]
async fn messages_dead_lettered_by_rabbitmq_are_collected_once_and_can_be_requeued() {
    if left_out("rabbitmq") {
        return;
    }
    check_collected_messages_can_be_requeued(unread(rabbitmq_url).await).await;
}

async fn check_collected_messages_can_be_requeued(platform: TestPlatform) {
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").ordered_by("k"), job("acme", "b").ordered_by("k")]).await;
    dead_letter_on_the_bus(&platform, 2).await;
    let rehearsed = collector(&platform).rehearse(STORE, &operator()).await.expect("it can be viewed");
    assert_eq!((rehearsed.letters.len(), rehearsed.taken(), rehearsed.more), (2, 2, false));
    assert_eq!(all_dead_letters(platform.db()).await, [] as [i64; 0], "nothing was written");
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.expect("they are collected");
    assert_eq!((report.letters.len(), report.copies, report.known), (2, 0, 0));
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    let letters = triage::details(platform.db(), &report.letters).await.unwrap();
    let letter = &letters[0];
    assert_eq!((letter.summary.queue.as_str(), letter.summary.reason.as_str()), (QUEUE, "delivery_limit"));
    assert_eq!((letter.summary.tenant.as_str(), letter.consumer.as_str()), ("acme", "probe"));
    let acts = triage::history(platform.db(), Some(letter.summary.id), None, 10).await.unwrap();
    assert_eq!((acts[0].act.as_str(), &acts[0].detail["foundIn"]), ("collected", &STORE.into()));
    assert_eq!(collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap(), CollectReport::default());
    let outcomes = requeue(platform.db(), &all_dead_letters(platform.db()).await).await;
    assert_eq!(outcomes.iter().map(|outcome| outcome.wait_ms).collect::<Vec<_>>(), [Some(0), None]);
    let order = "SELECT message->'payload'->>'name' FROM onceward.deferred ORDER BY id";
    let names: Vec<String> = owner.query(order, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test]
async fn a_message_that_landed_meanwhile_is_only_removed_from_the_bus() {
    if left_out("redis") {
        return;
    }
    let platform = unread(redis_url).await;
    let owner = platform.database().owner().await;
    publish(platform.db(), "acme", [job("acme", "a").once_per("the key")]).await;
    dead_letter_on_the_bus(&platform, 1).await;
    let landed = "SELECT onceward.record_inbox('acme', 'the key', 'probe')";
    owner.execute(landed, &[]).await.unwrap();
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap();
    assert_eq!(report, CollectReport { known: 1, ..CollectReport::default() });
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    assert_eq!(all_dead_letters(platform.db()).await, [] as [i64; 0]);
}

#[tokio::test]
async fn the_copy_of_a_dead_letter_is_only_removed_from_the_bus() {
    if left_out("redis") {
        return;
    }
    let (probe, _calls, repair) = crate::triage_support::failing_handler();
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
    assert_eq!(report, CollectReport { copies: 1, ..CollectReport::default() });
    assert_eq!(platform.broker().waiting(STORE).await.unwrap(), Some(0));
    let dead = all_dead_letters(platform.db()).await;
    assert_eq!(dead.len(), 1);
    repair.done();
    requeue(platform.db(), &dead).await;
    assert_eq!(effects_reach(&owner, 1).await, ["a"]);
}

#[tokio::test]
async fn an_unreadable_message_is_collected_unchanged() {
    if left_out("redis") {
        return;
    }
    let platform = unread(redis_url).await;
    publish(platform.db(), "acme", [job("acme", "a")]).await;
    dead_letter_on_the_bus(&platform, 1).await;
    let verdicts = platform.broker().publish(vec![foreign(vec![0, 1, 2])]).await.expect("the bus accepts it");
    assert_eq!(verdicts.len(), 1);
    let report = collector(&platform).collect(STORE, &operator(), |_| {}).await.unwrap();
    assert_eq!(report.letters.len(), 2);
    let letters = triage::details(platform.db(), &report.letters).await.unwrap();
    let foreign = letters.iter().find(|letter| letter.summary.reason == "malformed").expect("it is there");
    assert_eq!((foreign.summary.queue.as_str(), &foreign.message["bodyHex"]), (QUEUE, &"000102".into()));
    let outcomes = requeue(platform.db(), &[foreign.summary.id]).await;
    assert_eq!(outcomes[0].refusal, Some(triage::TriageRefusal::Unreadable));
}

/// A message that another program puts into the dead-letter queue.
fn foreign(body: Vec<u8>) -> Parcel {
    Parcel {
        id: uuid::Uuid::now_v7(),
        topic: onceward::topology::Topic::new("probe.dlq", "").into(),
        ordering_key: None,
        priority: 0,
        headers: [("x-foreign", "nul \0 inside")].into_iter().collect(),
        body: body.into(),
        expected: true,
    }
}

#[tokio::test]
async fn an_unread_dead_letter_queue_is_bounded_on_redis() {
    if !left_out("redis") {
        check_unread_dead_letter_queue_is_bounded(redis_url).await;
    }
}

#[tokio::test]
async fn an_unread_dead_letter_queue_is_bounded_on_rabbitmq() {
    if !left_out("rabbitmq") {
        check_unread_dead_letter_queue_is_bounded(rabbitmq_url).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_dead_letter_queue_is_bounded_on_kafka() {
    if !left_out("kafka") {
        check_unread_dead_letter_queue_is_bounded(kafka_url).await;
    }
}

/// Collected messages are not lost, and the newest ones stay in the queue.
async fn check_unread_dead_letter_queue_is_bounded(url: fn() -> String) {
    let url = started(url).await;
    let platform = Platform::assemble(vec![bare_service(one_lane())]).expect("the service is valid");
    let database = TestDb::for_platform_on(&platform, BusKind::of_url(&url).expect("a bus")).await;
    let mut platform = TestPlatform::with_config(database, platform, |config| {
        config.bus.url = url;
        config.bus.namespace = format!("t{}.", uuid::Uuid::now_v7().simple());
        config.bus.dead_letters_max = 10;
        config.retention.sweep_every_s = 1;
    });
    platform.run_relay();
    let broker = platform.broker();
    eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;
    // One key, because Kafka keeps the order within a partition only.
    let keyed = |number| Parcel { ordering_key: Some("one".into()), ..foreign(vec![number]) };
    let parcels = (0..25u8).map(keyed).collect();
    assert_eq!(broker.publish(parcels).await.expect("the bus accepts them").len(), 25);
    let (mut running, stop) = platform.another_instance();
    running.run_schedules();
    // RabbitMQ does not count a reader's unacknowledged messages, so more than the excess may be collected; the number
    // of dead letters shows when it is done.
    let letters = eventually("messages beyond the limit became dead letters", || async {
        let letters = all_dead_letters(platform.db()).await.len();
        let waiting = broker.waiting(STORE).await.ok().flatten()?;
        (letters >= 16 && waiting + letters as u64 == 25).then_some(letters)
    })
    .await;
    stop.cancel();
    assert!(running.finished().await, "it stops in order");
    let mut receiver = open(&platform, STORE).await;
    assert_eq!(
        receiver.receive(1, Duration::from_secs(10)).await.expect("the query succeeds")[0].body[..],
        [letters as u8]
    );
    receiver.return_unaccepted().await.expect("it is returned");
    broker.close().await;
}

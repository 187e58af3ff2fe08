//! Declaring and checking the topology, and querying the broker.

use super::{
    BrokerHarness,
    fixture::{BrokerFixture, PUBLISHED_AT, left_out},
    queue_reader::texts,
};
use futures_util::future::join_all;
use onceward_broker::{Address, BrokerConfig, BrokerError};
use onceward_topology::{Exchange, Queue, Topology};

/// Returns the exchange "events" with one queue, "work", that gets everything.
pub(super) fn simple_topology() -> Topology {
    Topology::new().exchange(Exchange::topic("events")).queue(Queue::work("work")).bind("events", "#", "work")
}

/// Returns a topology with one of every feature.
fn full_topology() -> Topology {
    let work = Queue::work("work").dead_letter_as("dlx", "work").delivery_limit(20).ttl_ms(86_400_000).max_priority(9);
    Topology::new()
        .exchange(Exchange::topic("events"))
        .exchange(Exchange::direct("commands"))
        .exchange(Exchange::fanout("news"))
        .exchange(Exchange::fanout("dlx"))
        .queue(work)
        .queue(Queue::dead_letter_store("dead"))
        .bind("events", "order.*.placed", "work")
        .bind("events", "stock.#", "work")
        .bind("commands", "reserve", "work")
        .bind("news", "", "work")
        .bind("dlx", "", "dead")
}

pub async fn declaring_twice_creates_nothing_new_and_leaves_no_differences(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::undeclared(harness, full_topology(), BrokerConfig::new(Address::Url(harness.url())));
    assert!(!fixture.declare().await.is_empty(), "it lists what it created");
    for fixture in [&fixture, &fixture.another_process()] {
        assert_eq!(fixture.declare().await, [""; 0], "created a second time");
        let differences = fixture.within_timeout("check", fixture.broker.check()).await.expect("the broker responds");
        assert_eq!(differences, []);
    }
}

/// Processes that start together declare together, and the fastest publishes before the slowest is done.
pub async fn processes_that_declare_concurrently_lose_no_message(harness: &dyn BrokerHarness) {
    const PROCESSES: u32 = 4;
    let first = BrokerFixture::undeclared(harness, simple_topology(), BrokerConfig::new(Address::Url(harness.url())));
    let starting = (0..PROCESSES).map(|process| {
        let fixture = first.another_process();
        async move {
            fixture
                .eventually("declared", || async {
                    match fixture.within_timeout("declare", fixture.broker.declare()).await {
                        Ok(_) => Some(()),
                        Err(BrokerError::Unavailable(_)) => None,
                        Err(error) => panic!("the topology cannot be declared: {error}"),
                    }
                })
                .await;
            let bodies = (0..5).map(|n| process * 5 + n);
            let parcels = bodies.map(|n| fixture.parcel("events", "a", &format!("key-{process}"), n.to_string()));
            fixture.send(parcels.collect()).await;
        }
    });
    join_all(starting).await;
    let differences = first.within_timeout("check", first.broker.check()).await.expect("the broker responds");
    assert_eq!(differences, []);
    let mut numbers: Vec<u32> =
        first.reader("work").await.bodies(20).await.iter().map(|body| body.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

pub async fn check_reports_what_is_missing_and_creates_nothing(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::undeclared(harness, full_topology(), BrokerConfig::new(Address::Url(harness.url())));
    for round in ["first", "second"] {
        let differences = fixture.within_timeout("check", fixture.broker.check()).await.expect("the broker responds");
        let named = differences.iter().filter(|difference| difference.what.contains(&fixture.name("")));
        assert!(named.count() > 0, "{round} check: {differences:?}");
        assert!(differences.iter().all(|difference| !difference.advice.is_empty()), "{differences:?}");
    }
    assert!(!fixture.declare().await.is_empty(), "check created everything");
}

pub async fn a_queue_receives_what_is_published_after_its_declaration(harness: &dyn BrokerHarness) {
    let before = BrokerFixture::declared(harness, simple_topology()).await;
    before.send(before.numbers(0..5)).await;
    let after = before.with_topology(simple_topology().queue(Queue::work("audit")).bind("events", "#", "audit"));
    after.declare().await;
    after.send(after.numbers(5..10)).await;
    assert_eq!(after.reader("work").await.bodies(10).await, texts(0..10));
    assert_eq!(after.reader("audit").await.bodies(5).await, texts(5..10));
}

pub async fn opening_a_missing_queue_reports_it_as_missing(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::undeclared(harness, simple_topology(), BrokerConfig::new(Address::Url(harness.url())));
    match fixture.try_reader("work", true, 1).await {
        Err(BrokerError::Missing(what)) => assert!(what.contains(&fixture.name("")), "{what}"),
        Err(error) => panic!("unexpected error: {error}"),
        Ok(_) => panic!("a missing queue was opened"),
    }
    // The broker works as before.
    fixture.declare().await;
    fixture.send(fixture.numbers(0..1)).await;
    assert_eq!(fixture.reader("work").await.bodies(1).await, ["0"]);
}

pub async fn the_backlog_grows_with_publishing_and_shrinks_with_accepting(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let queue = fixture.name("work");
    let waiting = || async {
        fixture.within_timeout("waiting", fixture.broker.waiting(&queue)).await.expect("the broker responds")
    };
    if waiting().await.is_none() {
        return left_out("it does not report how many messages wait in a queue");
    }
    fixture.eventually("nothing waits", || async { (waiting().await == Some(0)).then_some(()) }).await;
    fixture.send(fixture.numbers(0..7)).await;
    fixture.eventually("7 wait", || async { (waiting().await == Some(7)).then_some(()) }).await;
    let backlogs = fixture.within_timeout("backlogs", fixture.broker.backlogs(std::slice::from_ref(&queue))).await;
    let backlogs = backlogs.expect("the broker responds");
    assert_eq!((backlogs[0].waiting, backlogs.len()), (Some(7), 1));
    let published = fixture.broker.capabilities().reports_age.then(|| PUBLISHED_AT.parse().expect("a time"));
    assert_eq!(backlogs[0].oldest_at, published);
    let mut reader = fixture.reader("work").await;
    reader.take(7).await;
    reader.accept().await;
    fixture.eventually("nothing waits again", || async { (waiting().await == Some(0)).then_some(()) }).await;
}

pub async fn a_healthy_server_responds_to_a_ping_and_a_request_for_advice(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.within_timeout("ping", fixture.broker.ping()).await.expect("the broker responds");
    let advice = fixture.within_timeout("advise", fixture.broker.advise()).await.expect("the broker responds");
    assert!(advice.iter().all(|sentence| !sentence.is_empty()), "{advice:?}");
    assert!(!fixture.broker.name().is_empty());
}

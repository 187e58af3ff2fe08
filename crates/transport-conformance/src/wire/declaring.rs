//! Declaring, comparing and asking.

use super::{
    Lab,
    reader::texts,
    stand::{Stand, left_out},
};
use futures_util::future::join_all;
use onceward_topology::{Exchange, Queue, Topology};
use onceward_transport::{Address, BrokerConfig, BrokerError};

/// "events" with one queue, "work", that gets everything.
pub(super) fn simple() -> Topology {
    Topology::new().exchange(Exchange::topic("events")).queue(Queue::work("work")).bind("events", "#", "work")
}

/// Of everything one.
fn full() -> Topology {
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

/// See the name.
pub async fn declaring_twice_makes_nothing_more_and_leaves_no_difference(lab: &dyn Lab) {
    let stand = Stand::bare(lab, full(), BrokerConfig::new(Address::Url(lab.url())));
    assert!(!stand.declare().await.is_empty(), "it says what it made");
    for stand in [&stand, &stand.elsewhere()] {
        assert_eq!(stand.declare().await, [""; 0], "made a second time");
        let differences = stand.soon("check", stand.broker.check()).await.expect("the broker answers");
        assert_eq!(differences, []);
    }
}

/// Processes that start together declare together, and the quickest publishes before the slowest is done.
pub async fn processes_that_declare_at_once_lose_nothing(lab: &dyn Lab) {
    const PROCESSES: u32 = 4;
    let first = Stand::bare(lab, simple(), BrokerConfig::new(Address::Url(lab.url())));
    let starting = (0..PROCESSES).map(|process| {
        let stand = first.elsewhere();
        async move {
            stand
                .eventually("declared", || async {
                    match stand.soon("declare", stand.broker.declare()).await {
                        Ok(_) => Some(()),
                        Err(BrokerError::Unavailable(_)) => None,
                        Err(error) => panic!("it cannot be declared: {error}"),
                    }
                })
                .await;
            let bodies = (0..5).map(|n| process * 5 + n);
            let parcels = bodies.map(|n| stand.parcel("events", "a", &format!("key-{process}"), n.to_string()));
            stand.send(parcels.collect()).await;
        }
    });
    join_all(starting).await;
    let differences = first.soon("check", first.broker.check()).await.expect("the broker answers");
    assert_eq!(differences, []);
    let mut numbers: Vec<u32> =
        first.reader("work").await.bodies(20).await.iter().map(|body| body.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
}

/// See the name.
pub async fn check_tells_what_is_missing_and_makes_nothing(lab: &dyn Lab) {
    let stand = Stand::bare(lab, full(), BrokerConfig::new(Address::Url(lab.url())));
    for round in ["first", "second"] {
        let differences = stand.soon("check", stand.broker.check()).await.expect("the broker answers");
        let named = differences.iter().filter(|difference| difference.what.contains(&stand.name("")));
        assert!(named.count() > 0, "{round} check: {differences:?}");
        assert!(differences.iter().all(|difference| !difference.advice.is_empty()), "{differences:?}");
    }
    assert!(!stand.declare().await.is_empty(), "check made everything");
}

/// See the name.
pub async fn a_queue_gets_what_is_published_after_it_was_declared(lab: &dyn Lab) {
    let before = Stand::declared(lab, simple()).await;
    before.send(before.numbers(0..5)).await;
    let after = before.grown(simple().queue(Queue::work("audit")).bind("events", "#", "audit"));
    after.declare().await;
    after.send(after.numbers(5..10)).await;
    assert_eq!(after.reader("work").await.bodies(10).await, texts(0..10));
    assert_eq!(after.reader("audit").await.bodies(5).await, texts(5..10));
}

/// See the name.
pub async fn opening_a_queue_that_is_missing_says_so(lab: &dyn Lab) {
    let stand = Stand::bare(lab, simple(), BrokerConfig::new(Address::Url(lab.url())));
    match stand.try_reader("work", true, 1).await {
        Err(BrokerError::Missing(what)) => assert!(what.contains(&stand.name("")), "{what}"),
        Err(error) => panic!("it says something else: {error}"),
        Ok(_) => panic!("it was opened"),
    }
    // And the broker is as good as before.
    stand.declare().await;
    stand.send(stand.numbers(0..1)).await;
    assert_eq!(stand.reader("work").await.bodies(1).await, ["0"]);
}

/// See the name.
pub async fn what_waits_goes_up_and_down(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    let queue = stand.name("work");
    let waiting = || async { stand.soon("waiting", stand.broker.waiting(&queue)).await.expect("the broker answers") };
    if waiting().await.is_none() {
        return left_out("it cannot tell how much waits in a queue");
    }
    stand.eventually("nothing waits", || async { (waiting().await == Some(0)).then_some(()) }).await;
    stand.send(stand.numbers(0..7)).await;
    stand.eventually("7 wait", || async { (waiting().await == Some(7)).then_some(()) }).await;
    let mut reader = stand.reader("work").await;
    reader.take(7).await;
    reader.accept().await;
    stand.eventually("nothing waits again", || async { (waiting().await == Some(0)).then_some(()) }).await;
}

/// See the name.
pub async fn a_healthy_server_answers_a_ping_and_gives_advice(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.soon("ping", stand.broker.ping()).await.expect("it answers");
    let advice = stand.soon("advise", stand.broker.advise()).await.expect("it answers");
    assert!(advice.iter().all(|sentence| !sentence.is_empty()), "{advice:?}");
    assert!(!stand.broker.name().is_empty());
}

//! A network that breaks or stalls, and a server that moves.

use super::{
    BrokerHarness,
    declaring::simple_topology,
    fixture::{BrokerFixture, short_timeouts, without_network},
    queue_reader::{ConformanceReader, text, texts, without_duplicates},
};
use onceward_broker::{Address, BrokerError};
use onceward_testkit::TcpProxy;
use std::{
    future::Future,
    net::TcpListener,
    time::{Duration, Instant},
};
use tokio::time::timeout;
use uuid::Uuid;

/// How many times slower than the settings of [`short_timeouts`] a busy machine may be.
const SLOW_MACHINE_FACTOR: u32 = 3;

/// Returns the time limit for detecting a stalled network: as long as the settings allow for connecting and for a response.
fn detection_limit() -> Duration {
    let settings = short_timeouts(Address::Url(String::new()));
    (settings.connect_timeout + settings.heartbeat.max(settings.publish_timeout)) * SLOW_MACHINE_FACTOR
}

pub async fn publishers_and_readers_recover_from_lost_connections(harness: &dyn BrokerHarness) {
    let Some((fixture, proxy)) = BrokerFixture::behind_proxy(harness, simple_topology()).await else { return };
    fixture.send(fixture.numbers(0..20)).await;
    let mut reader = fixture.reader("work").await;
    assert_eq!(reader.bodies(5).await, texts(0..5));
    reader.accept().await;
    assert_eq!(reader.bodies(5).await, texts(5..10));

    proxy.cut();
    assert_unavailable("publish", fixture.broker.publish(fixture.numbers(20..30))).await;
    receive_until_it_fails(&mut reader).await;
    assert_unavailable("ping", fixture.broker.ping()).await;
    proxy.resume();

    fixture.send_with_retries(fixture.numbers(20..40)).await;
    let mut landed = read_with_reconnects(&fixture, reader, &texts(5..40)).await;
    // The cut may have lost the acknowledgement of the first five, but not their order.
    landed.retain(|body| !texts(0..5).contains(body));
    assert_eq!(without_duplicates(&landed), texts(5..40));
}

/// Messages that the stalled network held back may arrive late, in addition to their repetition.
pub async fn publishing_over_a_stalled_network_fails_and_recovers(harness: &dyn BrokerHarness) {
    let Some((fixture, proxy)) = BrokerFixture::behind_proxy(harness, simple_topology()).await else { return };
    let another_process = fixture.another_process();
    fixture.send(fixture.numbers(0..10)).await;
    let mut reader = another_process.reader("work").await;
    let mut landed = reader.bodies_until(&texts(0..10)).await;
    for first in [10, 20] {
        let batch = first..first + 10;
        proxy.stall();
        assert_unavailable("publish", fixture.broker.publish(fixture.numbers(batch.clone()))).await;
        // A new connection is equally silent.
        assert_unavailable("publish again", fixture.broker.publish(fixture.numbers(batch.clone()))).await;
        proxy.resume();
        fixture.send_with_retries(fixture.numbers(batch.clone())).await;
        landed.extend(reader.bodies_until(&texts(batch)).await);
    }
    assert_eq!(without_duplicates(&landed), texts(0..30));
}

pub async fn receiving_over_a_stalled_network_fails_and_recovers(harness: &dyn BrokerHarness) {
    let Some((fixture, proxy)) = BrokerFixture::behind_proxy(harness, simple_topology()).await else { return };
    fixture.send(fixture.numbers(0..10)).await;
    let mut reader = fixture.reader("work").await;
    assert_eq!(reader.bodies(4).await, texts(0..4));
    proxy.stall();
    receive_until_it_fails(&mut reader).await;
    assert_unavailable("ping", fixture.broker.ping()).await;
    assert_unavailable("waiting", fixture.broker.waiting(&fixture.name("work"))).await;
    assert_unavailable("check", fixture.broker.check()).await;
    fixture.another_process().send(fixture.numbers(10..20)).await;
    proxy.resume();
    let landed = read_with_reconnects(&fixture, reader, &texts(0..20)).await;
    assert_eq!(without_duplicates(&landed), texts(0..20));
}

/// While the network is stalled, the broker assigns the queue to another reader. When the first one resumes, it may
/// receive messages that it had received before, but no new ones.
pub async fn a_reader_behind_a_stalled_network_is_replaced(harness: &dyn BrokerHarness) {
    let Some((fixture, proxy)) = BrokerFixture::behind_proxy(harness, simple_topology()).await else { return };
    let another_process = fixture.another_process();
    another_process.send(another_process.numbers(0..20)).await;
    let mut stalled = fixture.reader_with("work", true, 5).await;
    assert_eq!(stalled.bodies(2).await, texts(0..2));
    proxy.stall();
    let mut successor = another_process.reader("work").await;
    assert_eq!(successor.bodies(20).await, texts(0..20));
    successor.accept().await;
    another_process.send(another_process.numbers(20..30)).await;
    proxy.resume();
    let mut late = Vec::new();
    // Several calls: the first ones may be answered from the client's buffer.
    for _ in 0..5 {
        match stalled.receive_once().await {
            Ok(batch) => late.extend(batch.iter().map(|arrival| text(&arrival.body))),
            Err(_) => break,
        }
        let _ = stalled.try_accept().await;
    }
    assert!(late.iter().all(|body| texts(0..5).contains(body)), "the replaced reader received {late:?}");
    assert_eq!(successor.bodies(10).await, texts(20..30));
}

pub async fn a_rotated_address_needs_no_restart(harness: &dyn BrokerHarness) {
    if without_network(harness) {
        return;
    }
    let [old, new] = [(); 2].map(|()| TcpProxy::in_front_of(&harness.url()));
    let path = std::env::temp_dir().join(format!("onceward-conformance-{}", Uuid::now_v7().simple()));
    std::fs::write(&path, old.url(&harness.url())).expect("a file can be written");
    let fixture = BrokerFixture::undeclared(harness, simple_topology(), short_timeouts(Address::File(path.clone())));
    fixture.declare().await;
    fixture.send(fixture.numbers(0..5)).await;
    let reader = fixture.reader("work").await;
    std::fs::write(&path, new.url(&harness.url())).expect("a file can be written");
    old.cut();
    fixture.send_with_retries(fixture.numbers(5..10)).await;
    let landed = read_with_reconnects(&fixture, reader, &texts(0..10)).await;
    assert_eq!(without_duplicates(&landed), texts(0..10));
    assert!(new.accepted() > 0);
    std::fs::remove_file(&path).expect("the file exists");
}

pub async fn an_unreachable_server_is_reported_without_its_password(harness: &dyn BrokerHarness) {
    const PASSWORD: &str = "correct-horse-battery";
    if without_network(harness) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    drop(listener);
    let scheme = harness.url().split("://").next().expect("a URL").to_owned();
    let config = short_timeouts(Address::Url(format!("{scheme}://user:{PASSWORD}@{address}")));
    let fixture = BrokerFixture::undeclared(harness, simple_topology(), config);
    let errors = [
        failure("publish", fixture.broker.publish(fixture.numbers(0..1))).await,
        failure("ping", fixture.broker.ping()).await,
        failure("declare", fixture.broker.declare()).await,
        failure("check", fixture.broker.check()).await,
        failure("open", fixture.try_reader("work", true, 1)).await,
    ];
    for error in errors {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(PASSWORD), "the error shows the password");
    }
}

pub async fn closing_the_broker_closes_every_connection(harness: &dyn BrokerHarness) {
    let Some((fixture, proxy)) = BrokerFixture::behind_proxy(harness, simple_topology()).await else { return };
    fixture.send(fixture.numbers(0..5)).await;
    let mut reader = fixture.reader("work").await;
    reader.take(5).await;
    reader.accept().await;
    proxy.stall();
    assert_unavailable("publish", fixture.broker.publish(fixture.numbers(5..6))).await;
    proxy.resume();
    fixture.send_with_retries(fixture.numbers(5..6)).await;
    drop(reader);
    fixture.within_timeout("close", fixture.broker.close()).await;
    fixture.eventually("no connection is left open", || async { (proxy.open() == 0).then_some(()) }).await;
}

/// Returns the error of an operation that cannot succeed. Panics if it does not fail in time.
async fn failure<T>(what: &str, future: impl Future<Output = Result<T, BrokerError>>) -> BrokerError {
    match timeout(detection_limit(), future).await {
        Ok(Err(error)) => error,
        Ok(Ok(_)) => panic!("{what} succeeded without a server"),
        Err(_) => panic!("{what} did not fail within {:?}", detection_limit()),
    }
}

/// Checks that the error is `Unavailable`: neither the message nor the settings are at fault.
async fn assert_unavailable<T>(what: &str, future: impl Future<Output = Result<T, BrokerError>>) {
    let error = failure(what, future).await;
    assert!(matches!(error, BrokerError::Unavailable(_)), "{what}: {error:?}");
}

/// Receives until an error occurs. Messages that are already buffered may still be returned.
async fn receive_until_it_fails(reader: &mut ConformanceReader) {
    let deadline = Instant::now() + detection_limit();
    loop {
        match reader.receive_once().await {
            Err(BrokerError::Unavailable(_)) => return,
            Err(error) => panic!("receive: {error:?}"),
            Ok(_) => assert!(Instant::now() < deadline, "receive did not fail within {:?}", detection_limit()),
        }
    }
}

/// Reads as the platform does, which opens the queue again after an error. Returns all bodies in the order in which
/// they would land, until each of `wanted` is among them.
async fn read_with_reconnects(fixture: &BrokerFixture<'_>, first: ConformanceReader, wanted: &[String]) -> Vec<String> {
    let (mut reader, mut landed, deadline) = (Some(first), Vec::new(), Instant::now() + fixture.timeout());
    while !wanted.iter().all(|body| landed.contains(body)) {
        assert!(Instant::now() < deadline, "of {wanted:?} only {landed:?} arrived");
        let mut current = match reader.take() {
            Some(reader) => reader,
            None => fixture.reader("work").await,
        };
        if let Ok(batch) = current.receive_once().await {
            landed.extend(batch.iter().map(|arrival| text(&arrival.body)));
            reader = current.try_accept().await.is_ok().then_some(current);
        }
    }
    landed
}

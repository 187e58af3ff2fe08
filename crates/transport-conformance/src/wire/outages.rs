//! A network that breaks, one that goes silent, a server that moves.

use super::{
    Lab,
    declaring::simple,
    reader::{Reader, first_times, text, texts},
    stand::{Stand, impatient, left_out},
};
use onceward_testkit::Proxy;
use onceward_transport::{Address, BrokerError};
use std::{
    future::Future,
    net::TcpListener,
    time::{Duration, Instant},
};
use tokio::time::timeout;
use uuid::Uuid;

/// Silence must be noticed within this. Brokers are told to notice within two seconds; slow machines are forgiven.
const NOTICED: Duration = Duration::from_secs(30);

/// See the name.
pub async fn both_sides_recover_from_lost_connections(lab: &dyn Lab) {
    let Some((stand, proxy)) = Stand::behind_a_proxy(lab, simple()).await else { return };
    stand.send(stand.numbers(0..20)).await;
    let mut reader = stand.reader("work").await;
    assert_eq!(reader.bodies(5).await, texts(0..5));
    reader.accept().await;
    assert_eq!(reader.bodies(5).await, texts(5..10));

    proxy.cut();
    must_fail("publish", stand.broker.publish(stand.numbers(20..30))).await;
    receive_until_it_fails(&mut reader).await;
    must_fail("ping", stand.broker.ping()).await;
    proxy.resume();

    stand.send_in_spite(stand.numbers(20..40)).await;
    let mut landed = read_in_spite(&stand, reader, &texts(5..40)).await;
    // The cut may have lost the word that the first five were accepted, but not their order.
    landed.retain(|body| !texts(0..5).contains(body));
    assert_eq!(first_times(&landed), texts(5..40));
}

/// What the silence held back may arrive late, beside its repetition.
pub async fn publishing_into_silence_fails_and_recovers(lab: &dyn Lab) {
    let Some((stand, proxy)) = Stand::behind_a_proxy(lab, simple()).await else { return };
    let elsewhere = stand.elsewhere();
    stand.send(stand.numbers(0..10)).await;
    let mut reader = elsewhere.reader("work").await;
    let mut landed = reader.until(&texts(0..10)).await;
    for first in [10, 20] {
        let batch = first..first + 10;
        proxy.stall();
        must_fail("publish", stand.broker.publish(stand.numbers(batch.clone()))).await;
        // A new connection is as silent.
        must_fail("publish again", stand.broker.publish(stand.numbers(batch.clone()))).await;
        proxy.resume();
        stand.send_in_spite(stand.numbers(batch.clone())).await;
        landed.extend(reader.until(&texts(batch)).await);
    }
    assert_eq!(first_times(&landed), texts(0..30));
}

/// See the name.
pub async fn receiving_from_silence_fails_and_recovers(lab: &dyn Lab) {
    let Some((stand, proxy)) = Stand::behind_a_proxy(lab, simple()).await else { return };
    stand.send(stand.numbers(0..10)).await;
    let mut reader = stand.reader("work").await;
    assert_eq!(reader.bodies(4).await, texts(0..4));
    proxy.stall();
    receive_until_it_fails(&mut reader).await;
    must_fail("ping", stand.broker.ping()).await;
    must_fail("waiting", stand.broker.waiting(&stand.name("work"))).await;
    must_fail("check", stand.broker.check()).await;
    stand.elsewhere().send(stand.numbers(10..20)).await;
    proxy.resume();
    let landed = read_in_spite(&stand, reader, &texts(0..20)).await;
    assert_eq!(first_times(&landed), texts(0..20));
}

/// While the network is silent the broker gives the queue to somebody else. When the first wakes up, it may see what it had
/// been given before, but nothing new.
pub async fn a_reader_behind_a_silent_network_is_replaced(lab: &dyn Lab) {
    let Some((stand, proxy)) = Stand::behind_a_proxy(lab, simple()).await else { return };
    let elsewhere = stand.elsewhere();
    elsewhere.send(elsewhere.numbers(0..20)).await;
    let mut stalled = stand.reader_with("work", true, 5).await;
    assert_eq!(stalled.bodies(2).await, texts(0..2));
    proxy.stall();
    let mut successor = elsewhere.reader("work").await;
    assert_eq!(successor.bodies(20).await, texts(0..20));
    successor.accept().await;
    elsewhere.send(elsewhere.numbers(20..30)).await;
    proxy.resume();
    let mut late = Vec::new();
    // A few looks: the first ones may be answered from memory.
    for _ in 0..5 {
        match stalled.some().await {
            Ok(batch) => late.extend(batch.iter().map(|arrival| text(&arrival.body))),
            Err(_) => break,
        }
        let _ = stalled.try_accept().await;
    }
    assert!(late.iter().all(|body| texts(0..5).contains(body)), "after it was replaced it was handed {late:?}");
    assert_eq!(successor.bodies(10).await, texts(20..30));
}

/// See the name.
pub async fn a_rotated_address_needs_no_restart(lab: &dyn Lab) {
    if !lab.can_be_proxied() {
        return left_out("its server cannot be reached through a proxy");
    }
    let [old, new] = [(); 2].map(|()| Proxy::before(&lab.url()));
    let path = std::env::temp_dir().join(format!("onceward-conformance-{}", Uuid::now_v7().simple()));
    std::fs::write(&path, old.url(&lab.url())).expect("a file can be written");
    let stand = Stand::bare(lab, simple(), impatient(Address::File(path.clone())));
    stand.declare().await;
    stand.send(stand.numbers(0..5)).await;
    let reader = stand.reader("work").await;
    std::fs::write(&path, new.url(&lab.url())).expect("a file can be written");
    old.cut();
    stand.send_in_spite(stand.numbers(5..10)).await;
    let landed = read_in_spite(&stand, reader, &texts(0..10)).await;
    assert_eq!(first_times(&landed), texts(0..10));
    assert!(new.accepted() > 0);
    std::fs::remove_file(&path).expect("it is there");
}

/// See the name.
pub async fn a_server_that_is_not_there_is_reported_without_its_password(lab: &dyn Lab) {
    const PASSWORD: &str = "correct-horse-battery";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    drop(listener);
    let scheme = lab.url().split("://").next().expect("a URL").to_owned();
    let config = impatient(Address::Url(format!("{scheme}://user:{PASSWORD}@{address}")));
    let stand = Stand::bare(lab, simple(), config);
    let errors = [
        failure("publish", stand.broker.publish(stand.numbers(0..1))).await,
        failure("ping", stand.broker.ping()).await,
        failure("declare", stand.broker.declare()).await,
        failure("check", stand.broker.check()).await,
        failure("open", stand.try_reader("work", true, 1)).await,
    ];
    for error in errors {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(PASSWORD), "it shows the password");
    }
}

/// See the name.
pub async fn closing_ends_every_connection(lab: &dyn Lab) {
    let Some((stand, proxy)) = Stand::behind_a_proxy(lab, simple()).await else { return };
    stand.send(stand.numbers(0..5)).await;
    let mut reader = stand.reader("work").await;
    reader.take(5).await;
    reader.accept().await;
    proxy.stall();
    must_fail("publish", stand.broker.publish(stand.numbers(5..6))).await;
    proxy.resume();
    stand.send_in_spite(stand.numbers(5..6)).await;
    drop(reader);
    stand.soon("close", stand.broker.close()).await;
    stand.eventually("no connection is left open", || async { (proxy.open() == 0).then_some(()) }).await;
}

/// The error of something that cannot succeed, noticed in time.
async fn failure<T>(what: &str, future: impl Future<Output = Result<T, BrokerError>>) -> BrokerError {
    match timeout(NOTICED, future).await {
        Ok(Err(error)) => error,
        Ok(Ok(_)) => panic!("{what} succeeded without a server"),
        Err(_) => panic!("{what} did not notice within {NOTICED:?}"),
    }
}

/// An outage is not the message's fault and not the settings'.
async fn must_fail<T>(what: &str, future: impl Future<Output = Result<T, BrokerError>>) {
    let error = failure(what, future).await;
    assert!(matches!(error, BrokerError::Unavailable(_)), "{what}: {error:?}");
}

/// What is here already may still be handed out.
async fn receive_until_it_fails(reader: &mut Reader) {
    let until = Instant::now() + NOTICED;
    loop {
        match reader.some().await {
            Err(BrokerError::Unavailable(_)) => return,
            Err(error) => panic!("receive: {error:?}"),
            Ok(_) => assert!(Instant::now() < until, "receive did not notice within {NOTICED:?}"),
        }
    }
}

/// Reads as the platform does: an error means to open the queue again. Gives all bodies in the order in which they would
/// be written down, until each of `wanted` is among them.
async fn read_in_spite(stand: &Stand<'_>, first: Reader, wanted: &[String]) -> Vec<String> {
    let (mut reader, mut landed, until) = (Some(first), Vec::new(), Instant::now() + stand.patience());
    while !wanted.iter().all(|body| landed.contains(body)) {
        assert!(Instant::now() < until, "of {wanted:?} came {landed:?}");
        let mut current = match reader.take() {
            Some(reader) => reader,
            None => stand.reader("work").await,
        };
        if let Ok(batch) = current.some().await {
            landed.extend(batch.iter().map(|arrival| text(&arrival.body)));
            reader = current.try_accept().await.is_ok().then_some(current);
        }
    }
    landed
}

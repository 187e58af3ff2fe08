//! The broker's responses to parcels.

use super::{
    BrokerHarness,
    declaring::simple_topology,
    fixture::{BrokerFixture, left_out},
    queue_reader::texts,
};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use onceward_topology::{Exchange, Queue};

/// Tests do not allocate larger bodies than this.
const MAX_TEST_BODY_BYTES: usize = 8 << 20;

pub async fn every_parcel_gets_its_verdict(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    fixture.send(fixture.numbers(0..500)).await;
    assert_eq!(fixture.reader("work").await.bodies(100).await, texts(0..100));
}

pub async fn publishing_an_empty_batch_succeeds(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    assert_eq!(fixture.publish(Vec::new()).await, []);
}

pub async fn an_unrouted_message_is_accepted(harness: &dyn BrokerHarness) {
    let topology = simple_topology().exchange(Exchange::topic("unbound"));
    let fixture = BrokerFixture::declared(harness, topology).await;
    let unrouted = fixture.parcel("unbound", "a", "key", "nobody");
    assert!(!unrouted.expected);
    let [first, second] = [0, 1].map(|n| fixture.numbers([n]).remove(0));
    fixture.send(vec![first, unrouted, second]).await;
    assert_eq!(fixture.reader("work").await.bodies(2).await, ["0", "1"]);
}

pub async fn a_message_without_its_expected_queue_is_refused(harness: &dyn BrokerHarness) {
    let topology = simple_topology().exchange(Exchange::direct("commands"));
    let fixture = BrokerFixture::declared(harness, topology).await;
    if !fixture.broker.capabilities().refuses_unroutable {
        return left_out("it does not refuse unroutable messages");
    }
    let lost = Parcel { expected: true, ..fixture.parcel("commands", "reserve", "key", "lost") };
    let mut parcels = fixture.numbers(0..2);
    parcels.insert(1, lost);
    let verdicts = fixture.publish(parcels).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&PublishOutcome::Accepted, &PublishOutcome::Accepted));
    assert!(matches!(&verdicts[1], PublishOutcome::Refused(why) if !why.is_empty()), "{verdicts:?}");
    assert_eq!(fixture.reader("work").await.bodies(2).await, ["0", "1"]);
}

/// The broker may report the parcel or the topology, but the message must not count as delivered.
pub async fn a_message_for_a_missing_exchange_is_not_accepted(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    if !fixture.broker.capabilities().refuses_unroutable {
        return left_out("it does not refuse unroutable messages");
    }
    // A queue is missing as well, because not every bus has exchanges.
    let absent = simple_topology()
        .exchange(Exchange::topic("absent"))
        .queue(Queue::work("absent"))
        .bind("absent", "#", "absent");
    let with_topology = fixture.with_topology(absent);
    let parcel = with_topology.parcel("absent", "a", "key", "lost");
    assert!(parcel.expected);
    match with_topology.within_timeout("publish", with_topology.broker.publish(vec![parcel])).await {
        Ok(verdicts) => assert!(matches!(verdicts.as_slice(), [PublishOutcome::Refused(_)]), "{verdicts:?}"),
        Err(BrokerError::Missing(what)) => assert!(what.contains(&with_topology.name("absent")), "{what}"),
        Err(error) => panic!("unexpected error: {error}"),
    }
    with_topology.send_with_retries(with_topology.numbers(0..2)).await;
    assert_eq!(with_topology.reader("work").await.bodies(2).await, ["0", "1"]);
}

pub async fn an_oversized_body_is_refused_and_the_rest_of_its_batch_is_accepted(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let largest = fixture.broker.capabilities().max_body_bytes;
    if largest >= 1 << 30 {
        return left_out("a body over its limit is too large for a test");
    }
    let mut parcels = fixture.numbers(0..2);
    parcels.insert(1, fixture.parcel("events", "a", "key", vec![b'x'; largest + 1]));
    let verdicts = fixture.publish(parcels).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&PublishOutcome::Accepted, &PublishOutcome::Accepted));
    assert!(matches!(&verdicts[1], PublishOutcome::Refused(why) if !why.is_empty()), "the oversized body was accepted");
    assert_eq!(fixture.reader("work").await.bodies(2).await, ["0", "1"]);
}

pub async fn the_largest_allowed_body_is_accepted(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let largest = fixture.broker.capabilities().max_body_bytes.min(MAX_TEST_BODY_BYTES);
    let body: Vec<u8> = (0..largest).map(|n| (n % 251) as u8).collect();
    fixture.send(vec![fixture.parcel("events", "a", "key", body.clone())]).await;
    let arrived = fixture.reader("work").await.take(1).await;
    assert!(arrived[0].body == body, "{} bytes arrived as others", body.len());
}

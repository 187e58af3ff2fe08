//! What the broker says of parcels.

use super::{
    Lab,
    declaring::simple,
    reader::texts,
    stand::{Stand, left_out},
};
use onceward_topology::{Exchange, Queue};
use onceward_transport::{BrokerError, Parcel, Verdict};

/// Larger bodies than this are not worth a test's memory.
const WORTH_BYTES: usize = 8 << 20;

/// See the name.
pub async fn every_parcel_gets_its_verdict(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    stand.send(stand.numbers(0..500)).await;
    assert_eq!(stand.reader("work").await.bodies(100).await, texts(0..100));
}

/// See the name.
pub async fn publishing_nothing_is_no_error(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    assert_eq!(stand.publish(Vec::new()).await, []);
}

/// See the name.
pub async fn a_message_nobody_waits_for_is_accepted(lab: &dyn Lab) {
    let topology = simple().exchange(Exchange::topic("unbound"));
    let stand = Stand::declared(lab, topology).await;
    let nowhere = stand.parcel("unbound", "a", "key", "nobody");
    assert!(!nowhere.expected);
    let [first, second] = [0, 1].map(|n| stand.numbers([n]).remove(0));
    stand.send(vec![first, nowhere, second]).await;
    assert_eq!(stand.reader("work").await.bodies(2).await, ["0", "1"]);
}

/// See the name.
pub async fn a_message_that_finds_no_queue_though_one_is_expected_is_refused(lab: &dyn Lab) {
    let topology = simple().exchange(Exchange::direct("commands"));
    let stand = Stand::declared(lab, topology).await;
    if !stand.broker.capabilities().refuses_unroutable {
        return left_out("it does not refuse what no queue takes");
    }
    let lost = Parcel { expected: true, ..stand.parcel("commands", "reserve", "key", "lost") };
    let mut parcels = stand.numbers(0..2);
    parcels.insert(1, lost);
    let verdicts = stand.publish(parcels).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&Verdict::Accepted, &Verdict::Accepted));
    assert!(matches!(&verdicts[1], Verdict::Refused(why) if !why.is_empty()), "{verdicts:?}");
    assert_eq!(stand.reader("work").await.bodies(2).await, ["0", "1"]);
}

/// Whether the parcel or the topology is blamed, the message must not count as delivered.
pub async fn a_message_for_an_exchange_that_is_missing_is_not_accepted(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    if !stand.broker.capabilities().refuses_unroutable {
        return left_out("it does not refuse what no queue takes");
    }
    // With a queue that is missing as well, since not every bus has exchanges.
    let absent =
        simple().exchange(Exchange::topic("absent")).queue(Queue::work("absent")).bind("absent", "#", "absent");
    let grown = stand.grown(absent);
    let parcel = grown.parcel("absent", "a", "key", "lost");
    assert!(parcel.expected);
    match grown.soon("publish", grown.broker.publish(vec![parcel])).await {
        Ok(verdicts) => assert!(matches!(verdicts.as_slice(), [Verdict::Refused(_)]), "{verdicts:?}"),
        Err(BrokerError::Missing(what)) => assert!(what.contains(&grown.name("absent")), "{what}"),
        Err(error) => panic!("it says something else: {error}"),
    }
    grown.send_in_spite(grown.numbers(0..2)).await;
    assert_eq!(grown.reader("work").await.bodies(2).await, ["0", "1"]);
}

/// See the name.
pub async fn a_body_too_large_is_refused_and_its_neighbours_are_not(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    let largest = stand.broker.capabilities().max_body_bytes;
    if largest >= 1 << 30 {
        return left_out("what is too large for it is too large for a test");
    }
    let mut parcels = stand.numbers(0..2);
    parcels.insert(1, stand.parcel("events", "a", "key", vec![b'x'; largest + 1]));
    let verdicts = stand.publish(parcels).await;
    assert_eq!((&verdicts[0], &verdicts[2]), (&Verdict::Accepted, &Verdict::Accepted));
    assert!(matches!(&verdicts[1], Verdict::Refused(why) if !why.is_empty()), "it was accepted");
    assert_eq!(stand.reader("work").await.bodies(2).await, ["0", "1"]);
}

/// See the name.
pub async fn the_largest_body_is_accepted(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    let largest = stand.broker.capabilities().max_body_bytes.min(WORTH_BYTES);
    let body: Vec<u8> = (0..largest).map(|n| (n % 251) as u8).collect();
    stand.send(vec![stand.parcel("events", "a", "key", body.clone())]).await;
    let arrived = stand.reader("work").await.take(1).await;
    assert!(arrived[0].body == body, "{} bytes came back as others", body.len());
}

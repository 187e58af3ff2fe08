//! What other programs put on the bus: repetitions, garbage, messages of their own.

use super::{
    PlatformLab,
    service::{Job, WORK},
    stage::{Stage, message, named, parcel, publish_raw},
    store,
};
use crate::wire::stand::left_out;
use onceward::transport::{Parcel, wire};

const AGAIN: usize = 1_000;

/// On PostgreSQL nobody can publish past the outbox.
fn nobody_else(lab: &dyn PlatformLab) -> bool {
    let none = lab.bus_url().is_none();
    if none {
        left_out("nobody else publishes on this bus");
    }
    none
}

/// Half of the copies come after the first was handled.
pub async fn a_message_delivered_a_thousand_times_has_one_effect(lab: &dyn PlatformLab) {
    if nobody_else(lab) {
        return;
    }
    let stage = Stage::running(lab).await;
    let broker = stage.broker().await;
    let copy = parcel(&named("copied"), "one", Some("key"));
    publish_raw(&*broker, vec![copy.clone(); AGAIN / 2]).await;
    stage.effects(WORK, 1).await;
    publish_raw(&*broker, vec![copy; AGAIN / 2]).await;
    publish_raw(&*broker, vec![parcel(&named("last"), "two", Some("key"))]).await;
    let effects = stage.effects_in_the_end(WORK, 2).await;
    assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), ["copied", "last"]);
}

/// See the name.
pub async fn bytes_that_are_no_message_are_dead_letters_and_lose_nothing(lab: &dyn PlatformLab) {
    if nobody_else(lab) {
        return;
    }
    let stage = Stage::running(lab).await;
    let broker = stage.broker().await;
    let garbage: [&[u8]; 6] = [b"", b"{}", b"[]", b"\xff\xfe\x00", b"{\"eventId\": 7}", b"not json \0 at all"];
    let mut parcels = Vec::new();
    for (number, body) in (0..).zip(garbage) {
        let good = Job { number, ..named("good") };
        parcels.push(parcel(&good, &format!("good {number}"), Some("key")));
        let bad = parcel(&named("bad"), "bad", Some("key"));
        parcels.push(Parcel { body: body.to_vec().into(), ..bad });
    }
    publish_raw(&*broker, parcels).await;
    let dead = stage.dead(garbage.len()).await;
    assert!(dead.iter().all(|letter| letter.reason == "malformed"), "{dead:?}");
    let effects = stage.effects_in_the_end(WORK, garbage.len()).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..6).collect::<Vec<_>>());
    assert_eq!(store::dead_letters(&stage.owner).await.len(), garbage.len());
}

/// With nothing beside the body but where it goes.
pub async fn a_message_from_another_program_is_handled(lab: &dyn PlatformLab) {
    if nobody_else(lab) {
        return;
    }
    let stage = Stage::running(lab).await;
    let broker = stage.broker().await;
    let mut bare = parcel(&named("foreign"), "foreign", None);
    bare.headers = bare.headers.get(wire::TOPIC).map(|topic| (wire::TOPIC, topic.to_owned())).into_iter().collect();
    publish_raw(&*broker, vec![bare]).await;
    stage.publish("acme", [message(&named("ours"))]).await;
    let effects = stage.effects_in_the_end(WORK, 2).await;
    let mut names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["foreign", "ours"]);
    assert!(store::dead_letters(&stage.owner).await.is_empty());
}

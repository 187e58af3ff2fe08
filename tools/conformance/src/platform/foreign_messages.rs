//! Messages from other programs on the bus: duplicates, garbage, and valid messages.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message, parcel, publish_raw},
    service::{Job, WORK},
    store,
};
use crate::broker::fixture::left_out;
use onceward::broker::{Parcel, wire};

const COPIES: usize = 1_000;
/// Half of a surrogate pair: PostgreSQL stores it in a `json` column, and no JSON parser accepts it.
const UNREADABLE: &str = r#"{"name": "\ud800"}"#;

/// Returns whether the bus is PostgreSQL, where no program can bypass the outbox, and reports that the case is skipped.
fn has_no_other_publishers(harness: &dyn PlatformHarness) -> bool {
    let none = harness.bus_url().is_none();
    if none {
        left_out("no other program publishes on this bus");
    }
    none
}

/// Half of the copies arrive after the first was handled.
pub async fn a_message_delivered_a_thousand_times_has_one_effect(harness: &dyn PlatformHarness) {
    if has_no_other_publishers(harness) {
        return;
    }
    let fixture = PlatformFixture::running(harness).await;
    let broker = fixture.broker().await;
    let copy = parcel(&job("copied"), "one", Some("key"));
    publish_raw(&*broker, vec![copy.clone(); COPIES / 2]).await;
    fixture.effects(WORK, 1).await;
    publish_raw(&*broker, vec![copy; COPIES / 2]).await;
    publish_raw(&*broker, vec![parcel(&job("last"), "two", Some("key"))]).await;
    let effects = fixture.final_effects(WORK, 2).await;
    assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), ["copied", "last"]);
}

pub async fn bytes_that_are_no_message_are_dead_letters_and_lose_nothing(harness: &dyn PlatformHarness) {
    if has_no_other_publishers(harness) {
        return;
    }
    let fixture = PlatformFixture::running(harness).await;
    let broker = fixture.broker().await;
    let garbage: [&[u8]; 6] = [b"", b"{}", b"[]", b"\xff\xfe\x00", b"{\"eventId\": 7}", b"not json \0 at all"];
    let mut parcels = Vec::new();
    for (number, body) in (0..).zip(garbage) {
        let good = Job { number, ..job("good") };
        parcels.push(parcel(&good, &format!("good {number}"), Some("key")));
        let bad = parcel(&job("bad"), "bad", Some("key"));
        parcels.push(Parcel { body: body.to_vec().into(), ..bad });
    }
    publish_raw(&*broker, parcels).await;
    let dead = fixture.wait_for_dead_letters(garbage.len()).await;
    assert!(dead.iter().all(|letter| letter.reason == "malformed"), "{dead:?}");
    let effects = fixture.final_effects(WORK, garbage.len()).await;
    let numbers: Vec<i64> = effects.iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, (0..6).collect::<Vec<_>>());
    assert_eq!(store::dead_letters(&fixture.owner).await.len(), garbage.len());
}

/// The message has no header other than its topic.
pub async fn a_message_from_another_program_is_handled(harness: &dyn PlatformHarness) {
    if has_no_other_publishers(harness) {
        return;
    }
    let fixture = PlatformFixture::running(harness).await;
    let broker = fixture.broker().await;
    let mut bare = parcel(&job("foreign"), "foreign", None);
    bare.headers = bare.headers.get(wire::TOPIC).map(|topic| (wire::TOPIC, topic.to_owned())).into_iter().collect();
    publish_raw(&*broker, vec![bare]).await;
    fixture.publish("acme", [message(&job("ours"))]).await;
    let effects = fixture.final_effects(WORK, 2).await;
    let mut names: Vec<&str> = effects.iter().map(|effect| effect.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["foreign", "ours"]);
    assert!(store::dead_letters(&fixture.owner).await.is_empty());
}

/// Services in other languages write the log with SQL, so a row may contain anything that its columns accept.
pub async fn a_row_that_cannot_be_read_is_a_dead_letter_and_its_neighbours_are_handled(harness: &dyn PlatformHarness) {
    let mut fixture = PlatformFixture::new(harness).await;
    let jobs = ["before", "bad", "after"].map(|name| message(&job(name)).ordered_by("key"));
    fixture.publish("acme", jobs).await;
    store::overwrite_payload(&fixture.owner, "bad", UNREADABLE).await;
    fixture.run();
    let dead = fixture.wait_for_dead_letters(1).await;
    assert_eq!((dead.len(), dead[0].reason.as_str()), (1, "malformed"), "{dead:?}");
    let effects = fixture.final_effects(WORK, 2).await;
    assert_eq!(effects.iter().map(|effect| effect.name.as_str()).collect::<Vec<_>>(), ["before", "after"]);
    assert_eq!(store::dead_letters(&fixture.owner).await.len(), 1);
}

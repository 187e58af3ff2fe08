//! Order per key, throughout the platform.

use super::{
    PlatformHarness,
    fixture::{PlatformFixture, job, message},
    service::{Job, WORK},
    store::EffectRow,
};
use onceward::NewMessage;
use std::collections::BTreeMap;

const KEYS: usize = 200;
const EACH: i64 = 20;

/// Returns the numbers of each name, in the order of their effects.
fn by_name(effects: &[EffectRow]) -> BTreeMap<&str, Vec<i64>> {
    let mut by_name: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for effect in effects {
        by_name.entry(&effect.name).or_default().push(effect.number);
    }
    by_name
}

fn keyed(key: &str, number: i64, failures: u32) -> NewMessage {
    message(&Job { number, failures, ..job(key) }).ordered_by(key)
}

/// Both instances publish to the bus, receive from it and handle messages.
pub async fn keys_keep_their_order_with_two_instances(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let other = fixture.start_instance(false);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("schlüssel-{key}")).collect();
    for number in 0..EACH {
        fixture.publish("acme", keys.iter().map(|key| keyed(key, number, 0))).await;
    }
    let effects = fixture.final_effects(WORK, KEYS * EACH as usize).await;
    let by_name = by_name(&effects);
    assert_eq!(by_name.len(), KEYS);
    for (key, numbers) in by_name {
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "{key}");
    }
    other.stop().await;
}

pub async fn a_retry_keeps_its_key_in_order(harness: &dyn PlatformHarness) {
    let fixture = PlatformFixture::running(harness).await;
    let keys = ["smooth", "bumpy", "bumpier"];
    for number in 0..EACH {
        let failures = |key: &str| match (key, number % 5) {
            ("bumpy", 1) => 1,
            ("bumpier", 2 | 3) => 2,
            _ => 0,
        };
        fixture.publish("acme", keys.map(|key| keyed(key, number, failures(key)))).await;
    }
    let effects = fixture.final_effects(WORK, keys.len() * EACH as usize).await;
    for (key, numbers) in by_name(&effects) {
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "{key}");
    }
    let retried = effects.iter().filter(|effect| effect.attempt > 1).count();
    assert_eq!(retried, 12, "messages that were tried again");
}

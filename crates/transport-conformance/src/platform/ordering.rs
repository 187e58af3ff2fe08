//! Order per key, through everything.

use super::{
    PlatformLab,
    service::{Job, WORK},
    stage::{Stage, message, named},
    store::Effect,
};
use onceward::NewMessage;
use std::collections::BTreeMap;

const KEYS: usize = 200;
const EACH: i64 = 20;

/// The numbers of each name, in the order of their effects.
fn by_name(effects: &[Effect]) -> BTreeMap<&str, Vec<i64>> {
    let mut by_name: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for effect in effects {
        by_name.entry(&effect.name).or_default().push(effect.number);
    }
    by_name
}

fn keyed(key: &str, number: i64, failures: u32) -> NewMessage {
    message(&Job { number, failures, ..named(key) }).ordered_by(key)
}

/// Both instances relay, receive and handle.
pub async fn keys_keep_their_order_with_two_instances(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let other = stage.another(false);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("schlüssel-{key}")).collect();
    for number in 0..EACH {
        stage.publish("acme", keys.iter().map(|key| keyed(key, number, 0))).await;
    }
    let effects = stage.effects_in_the_end(WORK, KEYS * EACH as usize).await;
    let by_name = by_name(&effects);
    assert_eq!(by_name.len(), KEYS);
    for (key, numbers) in by_name {
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "{key}");
    }
    other.stop().await;
}

/// See the name.
pub async fn a_retry_keeps_its_key_in_order(lab: &dyn PlatformLab) {
    let stage = Stage::running(lab).await;
    let keys = ["smooth", "bumpy", "bumpier"];
    for number in 0..EACH {
        let failures = |key: &str| match (key, number % 5) {
            ("bumpy", 1) => 1,
            ("bumpier", 2 | 3) => 2,
            _ => 0,
        };
        stage.publish("acme", keys.map(|key| keyed(key, number, failures(key)))).await;
    }
    let effects = stage.effects_in_the_end(WORK, keys.len() * EACH as usize).await;
    for (key, numbers) in by_name(&effects) {
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "{key}");
    }
    let retried = effects.iter().filter(|effect| effect.attempt > 1).count();
    assert_eq!(retried, 12, "messages that were tried again");
}

//! Order per key.

use super::{
    BrokerHarness,
    declaring::simple_topology,
    fixture::BrokerFixture,
    queue_reader::{text, texts},
};
use futures_util::future::join_all;
use std::collections::BTreeMap;

const KEYS: u32 = 100;
const EACH: u32 = 20;
const PUBLISHERS: u32 = 4;

/// The relay publishes from several tasks at once, but never the same key from two of them.
pub async fn keys_keep_their_order_under_concurrent_publishing(harness: &dyn BrokerHarness) {
    let fixture = &BrokerFixture::declared(harness, simple_topology()).await;
    let publishers = (0..PUBLISHERS).map(|publisher| async move {
        let keys = || (0..KEYS).filter(|key| key % PUBLISHERS == publisher);
        for n in (0..EACH).step_by(5) {
            let batch = (n..n + 5).flat_map(|n| keys().map(move |key| (key, n)));
            let parcel = |(key, n): (u32, u32)| {
                fixture.parcel("events", &format!("a.{key}"), &format!("key-{key}"), format!("{key} {n}"))
            };
            fixture.send(batch.map(parcel).collect()).await;
        }
    });
    let (_, by_key) = tokio::join!(join_all(publishers), all_by_key(fixture));
    let whole = texts(0..EACH);
    for (key, numbers) in &by_key {
        assert_eq!(numbers, &whole, "key {key}");
    }
    assert_eq!(by_key.len(), KEYS as usize);
}

/// Returns every message of the case by key, in the order of arrival.
async fn all_by_key(fixture: &BrokerFixture<'_>) -> BTreeMap<String, Vec<String>> {
    let mut reader = fixture.reader("work").await;
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..KEYS * EACH / 50 {
        for arrival in reader.take(50).await {
            let body = text(&arrival.body);
            let (key, number) = body.split_once(' ').expect("a key and a number");
            by_key.entry(key.to_owned()).or_default().push(number.to_owned());
        }
        reader.accept().await;
    }
    by_key
}

pub async fn batches_of_one_key_keep_their_order(harness: &dyn BrokerHarness) {
    let fixture = BrokerFixture::declared(harness, simple_topology()).await;
    let mut reader = fixture.reader("work").await;
    for first in (0..500).step_by(100) {
        fixture.send(fixture.numbers(first..first + 100)).await;
    }
    for first in (0..500).step_by(100) {
        assert_eq!(reader.bodies(100).await, texts(first..first + 100));
        reader.accept().await;
    }
}

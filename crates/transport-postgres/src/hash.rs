//! One hash for keys, the same in Rust and in `onceward.enqueue`.

use onceward_envelope::fingerprint;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

/// How many locks all ordering keys share. Publishers of keys that fall into the same bucket
/// wait for each other's commit; a publish of many keys takes at most this many locks.
const KEY_BUCKETS: u32 = 1024;

/// An ordering key's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u32);

impl KeyHash {
    /// The hash of `key` within `tenant`.
    pub fn of(tenant: &str, key: &str) -> Self {
        let hash = scoped(tenant, key);
        Self(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
    }

    /// The hash of a key; a message without one gets any place.
    pub fn of_optional(tenant: &str, key: Option<&str>) -> Self {
        key.map_or_else(|| Self(rand::random()), |key| Self::of(tenant, key))
    }

    /// The shard among `shards`.
    pub fn shard(self, shards: i16) -> i16 {
        let shards = u32::from(shards.max(1).unsigned_abs());
        i16::try_from(self.0 % shards).expect("a queue has few shards")
    }

    /// The lock that publishers of this key share.
    pub fn bucket(self) -> i32 {
        i32::try_from(self.0 % KEY_BUCKETS).expect("there are few buckets")
    }
}

/// As many messages without a key as go to one lane of the outbox before the next one has its turn.
const SIDE_BY_SIDE: u32 = 256;

/// Gives messages their places.
pub(crate) struct Places(AtomicU32);

impl Places {
    /// Processes begin anywhere, so that they do not all fill the same lane.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(rand::random()))
    }

    /// The place of a message. Without a key it may have any. Readers of a queue may be slow, so there each gets another; a
    /// relay is not, and reads faster what lies side by side.
    pub(crate) fn next(&self, tenant: &str, key: Option<&str>, relayed: bool) -> KeyHash {
        if key.is_none() && relayed {
            return KeyHash(self.0.fetch_add(1, Ordering::Relaxed) / SIDE_BY_SIDE);
        }
        KeyHash::of_optional(tenant, key)
    }
}

/// The digest under which an idempotency key is remembered.
pub fn idempotency_digest(tenant: &str, key: &str) -> Uuid {
    let hash = scoped(tenant, key);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

fn scoped(tenant: &str, text: &str) -> [u8; 32] {
    fingerprint(format!("{tenant}:{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_key_of_two_tenants_has_two_digests() {
        assert_ne!(idempotency_digest("a", "k"), idempotency_digest("b", "k"));
    }

    #[test]
    fn a_key_keeps_its_shard() {
        let first = KeyHash::of("acme", "order-1");
        assert_eq!(first.shard(8), KeyHash::of("acme", "order-1").shard(8));
        assert!((0..8).contains(&first.shard(8)));
    }

    #[test]
    fn without_a_key_messages_lie_side_by_side_for_a_relay_and_nowhere_else() {
        let places = Places::new();
        let shards = |count: u32, relayed: bool| -> Vec<i16> {
            (0..count).map(|_| places.next("acme", None, relayed).shard(8)).collect()
        };
        let relayed = shards(8 * SIDE_BY_SIDE, true);
        let changes = relayed.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((7..=8).contains(&changes), "{changes} changes of lane among eight runs");
        assert_eq!(relayed.iter().collect::<HashSet<_>>().len(), 8, "every lane has its turn");
        assert_eq!(shards(SIDE_BY_SIDE, false).iter().collect::<HashSet<_>>().len(), 8, "a queue's are spread at once");
    }

    #[test]
    fn a_key_decides_also_for_a_relay() {
        let places = Places::new();
        for _ in 0..=SIDE_BY_SIDE {
            assert_eq!(places.next("acme", Some("order-1"), true), KeyHash::of("acme", "order-1"));
        }
    }
}

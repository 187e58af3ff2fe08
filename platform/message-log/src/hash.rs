//! The hash of keys, identical in Rust and in `onceward.enqueue`.

use onceward_envelope::fingerprint;
use std::sync::atomic::{AtomicU32, Ordering};
use uuid::Uuid;

/// How many locks all ordering keys share. Publishers of keys in the same bucket wait for each other's commit;
/// publishing many keys takes at most this many locks.
const KEY_BUCKETS: u32 = 1024;

/// The hash of an ordering key, which determines its shard and its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u32);

impl KeyHash {
    /// Returns the hash of `key` within `tenant`.
    pub fn of(tenant: &str, key: &str) -> Self {
        let hash = scoped(tenant, key);
        Self(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
    }

    /// Returns the hash of a key, or a random one for a message without a key.
    pub fn of_optional(tenant: &str, key: Option<&str>) -> Self {
        key.map_or_else(|| Self(rand::random()), |key| Self::of(tenant, key))
    }

    /// Returns the shard among `shards`.
    pub fn shard(self, shards: i16) -> i16 {
        let shards = u32::from(shards.max(1).unsigned_abs());
        i16::try_from(self.0 % shards).expect("a shard fits into 16 bits")
    }

    /// Returns the number of the lock that publishers of this key share.
    pub fn bucket(self) -> i32 {
        i32::try_from(self.0 % KEY_BUCKETS).expect("a bucket fits into 31 bits")
    }
}

/// Consecutive unkeyed messages assigned to one outbox lane.
const LANE_RUN: u32 = 256;

/// Assigns hashes to messages.
pub(crate) struct KeyHasher(AtomicU32);

impl KeyHasher {
    /// Each process starts at a random value, so that they do not all fill the same lane.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(rand::random()))
    }

    /// Returns the hash of a message. Without a key, any will do: readers of a queue may be slow, so each message of a
    /// queue gets a new one; a relay is fast and reads adjacent messages faster.
    pub(crate) fn next(&self, tenant: &str, key: Option<&str>, relayed: bool) -> KeyHash {
        if key.is_none() && relayed {
            return KeyHash(self.0.fetch_add(1, Ordering::Relaxed) / LANE_RUN);
        }
        KeyHash::of_optional(tenant, key)
    }
}

/// Returns the digest under which an idempotency key is remembered.
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
    fn unkeyed_messages_of_a_relay_share_a_lane_in_runs_and_others_are_spread() {
        let hasher = KeyHasher::new();
        let shards = |count: u32, relayed: bool| -> Vec<i16> {
            (0..count).map(|_| hasher.next("acme", None, relayed).shard(8)).collect()
        };
        let relayed = shards(8 * LANE_RUN, true);
        let changes = relayed.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((7..=8).contains(&changes), "{changes} changes of lane among eight runs");
        assert_eq!(relayed.iter().collect::<HashSet<_>>().len(), 8, "every lane is used");
        assert_eq!(shards(LANE_RUN, false).iter().collect::<HashSet<_>>().len(), 8, "those of a queue are spread");
    }

    #[test]
    fn a_key_keeps_its_hash_for_a_relay_too() {
        let hasher = KeyHasher::new();
        for _ in 0..=LANE_RUN {
            assert_eq!(hasher.next("acme", Some("order-1"), true), KeyHash::of("acme", "order-1"));
        }
    }
}

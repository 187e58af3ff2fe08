//! One hash for keys, the same in Rust and in `onceward.enqueue`.

use onceward_envelope::fingerprint;
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

    /// A place that is nobody's in particular.
    pub fn any(number: u32) -> Self {
        Self(number)
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
}

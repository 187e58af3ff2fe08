//! The published cases of MurmurHash3, flagd's `fractional` and Unleash's normalisation, and our own.

use onceward_rollout::{BUCKETS, bucket_of, murmur3_32, scale};

fn hash(text: &str) -> u32 {
    murmur3_32(text.bytes(), 0)
}

#[test]
fn murmur3_has_the_published_values() {
    let cases: [(&[u8], u32, u32); 9] = [
        (b"", 0, 0),
        (b"", 1, 0x514e_28b7),
        (&[0, 0, 0, 0], 0, 0x2362_f9de),
        (&[0xff, 0xff, 0xff, 0xff], 0, 0x7629_3b50),
        (&[0x21, 0x43, 0x65, 0x87], 0, 0xf55b_516b),
        (&[0x21, 0x43, 0x65, 0x87], 0x5082_edee, 0x2362_f9de),
        (b"aaaa", 0x9747_b28c, 0x5a97_808a),
        (b"Hello, world!", 0x9747_b28c, 0x2488_4cba),
        (b"hello", 0, 0x248b_fa47),
    ];
    for (bytes, seed, expected) in cases {
        assert_eq!(murmur3_32(bytes.iter().copied(), seed), expected, "{bytes:?} with {seed:x}");
    }
}

#[test]
fn buckets_agree_with_flagds_fractional() {
    for (name, expected_hash, bucket, suit) in [
        ("jack", 0x9fe8_43e0, 62, "hearts"),
        ("queen", 0xff04_ff2f, 99, "spades"),
        ("ten", 0x2fcb_300a, 18, "clubs"),
        ("nine", 0x53cf_d6c5, 32, "diamonds"),
        ("3", 0x2405_fbd8, 14, "clubs"),
    ] {
        let hash = hash(&format!("fractional-flag{name}"));
        assert_eq!((hash, scale(hash, 100)), (expected_hash, bucket), "{name}");
        let suits = ["clubs", "diamonds", "hearts", "spades"];
        assert_eq!(suits[scale(hash, 100) as usize / 25], suit, "{name}");
    }
    let side = |name: &str| scale(hash(&format!("fractional-flag-shorthand{name}")), 2);
    assert_eq!((side("jon@company.com"), side("jane@company.com")), (0, 1));
}

#[test]
fn buckets_at_the_edges_of_the_hash_agree_with_flagd() {
    for (key, expected_hash, bucket) in [("bY9fO-", 1, 0), ("SI7p-", 0x7fff_ffff, 49), ("6LvT0", 0x8000_0000, 50)] {
        assert_eq!((hash(key), scale(hash(key), 100)), (expected_hash, bucket), "{key}");
    }
    assert_eq!((scale(0, BUCKETS), scale(u32::MAX, BUCKETS)), (0, BUCKETS - 1));
}

#[test]
fn hashes_agree_with_unleashs_normalisation() {
    let normalized = |seed: u32, group: &str, id: &str, n: u32| {
        murmur3_32(group.bytes().chain(b":".iter().copied()).chain(id.bytes()), seed) % n + 1
    };
    for (group, id, expected) in [
        ("gr1", "123", 73),
        ("groupX", "999", 25),
        ("Feature.flexibleRollout.10", "174", 10),
        ("Feature.flexibleRollout.10", "499", 32),
        ("Feature.flexibleRollout.userId.55", "25", 55),
        ("AB12A", "122", 23),
        ("AB12A", "155", 100),
        ("AB12A", "123", 51),
    ] {
        assert_eq!(normalized(0, group, id, 100), expected, "{group} {id}");
    }
    for (group, id, n, expected) in [
        ("gr1", "123", 100, 96),
        ("groupX", "999", 100, 60),
        ("Feature.Variants.B", "2", 2, 2),
        ("Feature.Variants.B", "0", 2, 1),
        ("Feature.Variants.C", "232", 99, 18),
        ("Feature.Variants.C", "607", 99, 58),
        ("Feature.Variants.C", "656", 99, 94),
        ("Feature.Variants.D", "712", 100, 1),
    ] {
        assert_eq!(normalized(86_028_157, group, id, n), expected, "{group} {id}");
    }
}

#[test]
fn our_own_buckets_never_change() {
    for (salt, tenant, expected_hash, bucket) in [
        ("async-loan-create", "acme", 0x9981_2276, 59_962),
        ("async-loan-create", "globex", 0x831e_2c0f, 51_217),
        ("crm.email.v2", "acme", 0x5417_a1aa, 32_848),
    ] {
        assert_eq!(hash(&format!("{salt}{tenant}")), expected_hash, "{salt} {tenant}");
        assert_eq!(bucket_of(salt, &[tenant]), bucket, "{salt} {tenant}");
    }
}

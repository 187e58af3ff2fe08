//! MurmurHash3 for 32 bits (the variant x86_32), over bytes that need not be contiguous: a salt and a key are hashed as one
//! text without being copied into one.

/// Returns the MurmurHash3 x86_32 of `bytes` with `seed`. At most the first 4 GiB count for its length, as in the
/// reference implementation.
pub fn murmur3_32(bytes: impl IntoIterator<Item = u8>, seed: u32) -> u32 {
    let (mut hash, mut block, mut length) = (seed, 0_u32, 0_u32);
    for byte in bytes {
        block |= u32::from(byte) << (8 * (length % 4));
        length = length.wrapping_add(1);
        if length.is_multiple_of(4) {
            hash = (hash ^ mix(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
            block = 0;
        }
    }
    // A block of zeros mixes to zero, so a text without a remainder needs no special case.
    finish(hash ^ mix(block) ^ length)
}

fn mix(block: u32) -> u32 {
    block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn finish(mut hash: u32) -> u32 {
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

//! SHA-256 in one place, so that every stored fingerprint is computed the same way.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of `bytes`.
pub fn fingerprint(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes.as_ref()).into()
}

/// Returns the SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
pub fn fingerprint_hex(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(fingerprint(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_of_abc_is_the_published_one() {
        assert_eq!(fingerprint_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex::encode(fingerprint("abc")), fingerprint_hex(b"abc"));
    }
}

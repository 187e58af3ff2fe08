//! A key that encrypts artifacts and can be forgotten.

use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;

/// Encrypts objects. The same content has the same ciphertext, so that a repeated write stores the same object.
pub(crate) struct DataKey {
    key: LessSafeKey,
    nonces: Hmac<Sha256>,
}

impl DataKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let unbound = UnboundKey::new(&AES_256_GCM, key).expect("the key has the cipher's length");
        let nonces = Hmac::new_from_slice(key).expect("HMAC accepts keys of any length");
        Self { key: LessSafeKey::new(unbound), nonces }
    }

    /// Encrypts `plain`. `context` names the object; it opens under no other name.
    pub(crate) fn seal(&self, context: &str, plain: &[u8]) -> Vec<u8> {
        let nonce = self.nonce(context, plain);
        let mut sealed = plain.to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context.as_bytes()), &mut sealed)
            .expect("an object is shorter than the cipher's limit");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Returns `None` if the bytes were changed, or were not sealed with this key under this name.
    pub(crate) fn open(&self, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = sealed.to_vec();
        let aad = Aad::from(context.as_bytes());
        let plain = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut bytes).ok()?;
        Some(plain.to_vec())
    }

    /// Derives the nonce from the content: it repeats only for the same content, where it reveals nothing new.
    fn nonce(&self, context: &str, plain: &[u8]) -> [u8; NONCE_LEN] {
        let mut mac = self.nonces.clone();
        mac.update(b"nonce");
        mac.update(&(context.len() as u64).to_be_bytes());
        mac.update(context.as_bytes());
        mac.update(plain);
        let digest = mac.finalize().into_bytes();
        digest[..NONCE_LEN].try_into().expect("a digest is longer than a nonce")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_opens_only_under_its_name_and_seals_to_the_same_bytes() {
        let key = DataKey::new(&[7; 32]);
        let sealed = key.seal("mail", b"Dear Ada");
        assert_eq!(key.seal("mail", b"Dear Ada"), sealed);
        assert_eq!(key.open("mail", &sealed).as_deref(), Some(b"Dear Ada".as_slice()));
        assert_eq!(key.open("manifest", &sealed), None);
        assert_eq!(DataKey::new(&[8; 32]).open("mail", &sealed), None);
        assert_ne!(key.seal("manifest", b"Dear Ada")[..NONCE_LEN], sealed[..NONCE_LEN]);
    }
}

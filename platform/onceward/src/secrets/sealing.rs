//! Encrypts secrets at rest: AES-256-GCM with keys that are derived from the deployment's own.
//!
//! ```text
//! key text ── HKDF-SHA256, salted by the purpose ──┬─▶ the key itself
//!                                                  └─▶ its id, which is stored with everything that it sealed
//! ```

use super::{KeyText, KeyTexts};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
};

const FOR_SEALING: &[u8] = b"secrets, AES-256-GCM";
const FOR_ID: &[u8] = b"id of the key";
const ID_BYTES: usize = 8;

/// Opens what any configured key sealed, and seals with the current one.
pub struct SealingKeys {
    current: Option<SealingKey>,
    previous: Vec<SealingKey>,
}

/// Encrypted bytes, and the id of the key that encrypted them.
#[derive(Clone, Debug)]
pub struct SealedBytes {
    /// The id of the key.
    pub key_id: String,
    /// A nonce, the ciphertext and the tag.
    pub bytes: Vec<u8>,
}

/// Why bytes cannot be sealed or opened. The text names no secret and no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// No key is configured.
    #[error("no key for secrets is configured")]
    NoKey,
    /// The key that sealed the bytes is not configured.
    #[error("the secret is encrypted with the unknown key {0}")]
    UnknownKey(String),
    /// The bytes were changed, or were sealed for something else.
    #[error("the secret was changed in the database, or belongs to something else")]
    WrongContext,
}

struct SealingKey {
    id: String,
    key: LessSafeKey,
}

impl SealingKeys {
    /// Derives the keys for one `purpose`, such as `onceward webhooks`: the same text makes other keys for another purpose.
    pub fn derive(purpose: &str, current: &KeyText, previous: &KeyTexts) -> Self {
        let derive = |text: &KeyText| SealingKey::derive(purpose, text);
        let current = Some(current).filter(|text| !text.is_empty()).map(derive);
        Self { current, previous: previous.iter().map(derive).collect() }
    }

    /// Encrypts `plain` with the current key. It opens only in the same `context`, such as the id of its owner. Fails if no
    /// key is configured.
    pub fn seal(&self, context: &[u8], plain: &[u8]) -> Result<SealedBytes, SealError> {
        let key = self.current.as_ref().ok_or(SealError::NoKey)?;
        Ok(SealedBytes { key_id: key.id.clone(), bytes: key.seal(context, plain) })
    }

    /// Decrypts what was sealed in this `context`.
    pub fn open(&self, context: &[u8], sealed: &SealedBytes) -> Result<Vec<u8>, SealError> {
        let key = self.current.iter().chain(&self.previous).find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| SealError::UnknownKey(sealed.key_id.clone()))?;
        key.open(context, &sealed.bytes).ok_or(SealError::WrongContext)
    }

    /// Returns the ids of the previous keys, without the current one. What they sealed must be sealed again.
    pub fn outdated_ids(&self) -> Vec<&str> {
        let Some(current) = &self.current else {
            return Vec::new();
        };
        self.previous.iter().map(|key| key.id.as_str()).filter(|id| *id != current.id).collect()
    }
}

impl SealingKey {
    fn derive(purpose: &str, text: &KeyText) -> Self {
        let root = Salt::new(HKDF_SHA256, purpose.as_bytes()).extract(text.bytes());
        let info = [FOR_SEALING];
        let key = root.expand(&info, &AES_256_GCM).expect("HKDF can produce this many bytes");
        Self { id: id(&root), key: LessSafeKey::new(UnboundKey::from(key)) }
    }

    /// Returns a random nonce, the ciphertext and the tag. A key may be used about 2³² times this way; secrets are few.
    fn seal(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = plain.to_vec();
        let key = &self.key;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut sealed)
            .expect("a secret is shorter than the cipher's limit");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Returns `None` if the data was not sealed with this key and for this context.
    fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = sealed.to_vec();
        let plain =
            self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(context), &mut bytes).ok()?;
        Some(plain.to_vec())
    }
}

/// Derives an id that distinguishes keys and reveals nothing about them.
fn id(root: &Prk) -> String {
    let (info, mut id) = ([FOR_ID], [0; ID_BYTES]);
    let filled = root.expand(&info, Length(ID_BYTES)).and_then(|okm| okm.fill(&mut id));
    filled.expect("HKDF can produce this many bytes");
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(purpose: &str, current: &str, previous: &str) -> SealingKeys {
        let previous = KeyTexts::try_from(previous.to_owned()).expect("keys");
        SealingKeys::derive(purpose, &KeyText::borrowed(current), &previous)
    }

    #[test]
    fn sealed_bytes_open_only_in_their_context_and_for_their_purpose() {
        let (text, other) = ("a key of the deployment's, long enough", "the-key-that-was-in-force-before-it");
        let first = keys("mail", text, "");
        let sealed = first.seal(b"owner", b"secret").expect("a key is set");
        assert_eq!(first.open(b"owner", &sealed).as_deref(), Ok(b"secret".as_slice()));
        assert_eq!(first.open(b"thief", &sealed), Err(SealError::WrongContext));
        assert!(matches!(keys("webhooks", text, "").open(b"owner", &sealed), Err(SealError::UnknownKey(_))));
        let rotated = keys("mail", other, &text.replace(' ', "-"));
        assert_eq!(rotated.outdated_ids().len(), 1);
        assert_eq!(keys("mail", "", "").seal(b"owner", b"secret").err(), Some(SealError::NoKey));
    }
}

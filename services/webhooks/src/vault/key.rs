//! One key: how it is derived, and how it encrypts and decrypts.

use super::KeyText;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
};

const SALT: &[u8] = b"onceward webhooks";
const FOR_SEALING: &[u8] = b"secrets of endpoints, AES-256-GCM";
const FOR_ID: &[u8] = b"id of the key";
const ID_BYTES: usize = 8;

pub(super) struct Key {
    pub id: String,
    key: LessSafeKey,
}

impl Key {
    pub(super) fn derive(text: &KeyText) -> Self {
        let root = Salt::new(HKDF_SHA256, SALT).extract(text.bytes());
        let info = [FOR_SEALING];
        let key = root.expand(&info, &AES_256_GCM).expect("HKDF can produce this many bytes");
        Self { id: id(&root), key: LessSafeKey::new(UnboundKey::from(key)) }
    }

    /// Returns a random nonce, the ciphertext and the tag. A key may be used about 2³² times this way; endpoints'
    /// secrets are few.
    pub(super) fn seal(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = plain.to_vec();
        let key = &self.key;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(context), &mut sealed)
            .expect("a secret is shorter than the cipher's limit");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Returns `None` if the data was not sealed with this key and for this context.
    pub(super) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
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

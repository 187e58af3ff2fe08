//! Keys as written in the settings. They are redacted in logs and errors.

use ring::hkdf::{HKDF_SHA256, Salt};
use serde::Deserialize;
use std::fmt;

const MIN_BYTES: usize = 32;

/// The text that a key is derived from; may be empty.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct KeyText(String);

/// Several key texts, separated by spaces.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct KeyTexts(Vec<KeyText>);

/// The error for text that is too short to derive a key from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret_key and each of secret_keys_before must have at least 32 bytes; `openssl rand -hex 32` generates one")]
pub struct InvalidKey;

impl KeyText {
    /// Uses the text of another secret that is strong enough.
    pub fn borrowed(secret: &str) -> Self {
        Self(secret.to_owned())
    }

    /// Returns whether no key is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Derives 32 bytes for one `purpose`, for example the key of a signature: another purpose has other bytes.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut derived = [0; 32];
        let root = Salt::new(HKDF_SHA256, purpose.as_bytes()).extract(self.bytes());
        let filled = root.expand(&[b"derived secret"], HKDF_SHA256).and_then(|okm| okm.fill(&mut derived));
        filled.expect("HKDF can produce this many bytes");
        derived
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl KeyTexts {
    /// Returns the key texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &KeyText> {
        self.0.iter()
    }
}

impl TryFrom<String> for KeyText {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        if text.is_empty() || text.len() >= MIN_BYTES { Ok(Self(text)) } else { Err(InvalidKey) }
    }
}

impl TryFrom<String> for KeyTexts {
    type Error = InvalidKey;

    fn try_from(texts: String) -> Result<Self, InvalidKey> {
        texts.split_whitespace().map(|text| text.to_owned().try_into()).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "unset" } else { "set" })
    }
}

impl fmt::Debug for KeyTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn short_keys_are_rejected_and_debug_output_is_redacted() {
        let key = KeyText::try_from(LONG.to_owned()).unwrap();
        let keys = KeyTexts::try_from(format!("{LONG}  {LONG}z")).unwrap();
        assert_eq!(keys.iter().count(), 2);
        assert_eq!(format!("{key:?} {keys:?} {:?}", KeyText::default()), "set 2 keys unset");
        assert!(KeyTexts::try_from(String::new()).unwrap().0.is_empty());
        for short in [&LONG[1..], "short"] {
            assert_eq!(KeyText::try_from(short.to_owned()), Err(InvalidKey));
            assert_eq!(KeyTexts::try_from(format!("{LONG} {short}")), Err(InvalidKey));
        }
    }
}

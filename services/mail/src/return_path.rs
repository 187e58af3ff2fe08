//! Return paths that name the mail they belong to: `bounce+<token>@<domain>`.
//!
//! A bounce is joined to its recipient by the address that it is sent to, because its text may say anything. The token
//! is authenticated, so that nobody can have another's address suppressed by a forged bounce; it reveals no address.
//!
//! ```text
//! 16 bytes  id of the mail          ┐
//!  2 bytes  number of the recipient ├ 48 characters of base32 in lower case: servers may change the case
//! 12 bytes  of HMAC-SHA256 over both ┘
//! ```

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use uuid::Uuid;

const PREFIX: &str = "bounce+";
/// Separates this use of the key from any other.
const PURPOSE: &[u8] = b"onceward return path v1";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DATA_BYTES: usize = 18;
const TAG_BYTES: usize = 12;
const TOKEN_BYTES: usize = DATA_BYTES + TAG_BYTES;
const TOKEN_LETTERS: usize = TOKEN_BYTES * 8 / 5;

/// A secret of 32 bytes. `Debug` does not show it.
#[derive(Clone)]
pub struct ReturnPathKey([u8; 32]);

impl ReturnPathKey {
    /// Uses these bytes, which must be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn mac(&self, data: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        mac.update(PURPOSE);
        mac.update(data);
        mac
    }
}

impl fmt::Debug for ReturnPathKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReturnPathKey(…)")
    }
}

/// The keys of return paths. To rotate, move `current` to the front of `previous`; bounces arrive for about a week.
#[derive(Clone, Debug)]
pub struct ReturnPathKeys {
    /// Signs, and verifies.
    pub current: ReturnPathKey,
    /// Verifies only.
    pub previous: Vec<ReturnPathKey>,
}

/// What a return path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BounceTarget {
    /// The mail.
    pub email_id: Uuid,
    /// The recipient's number in the mail.
    pub recipient: u16,
}

impl ReturnPathKeys {
    /// Returns the return path of one recipient of a mail, in lower case.
    pub fn address(&self, target: BounceTarget, domain: &str) -> String {
        let data = [&target.email_id.as_bytes()[..], &target.recipient.to_be_bytes()].concat();
        let tag = self.current.mac(&data).finalize().into_bytes();
        let token = encode(&[&data[..], &tag[..TAG_BYTES]].concat());
        format!("{PREFIX}{token}@{}", domain.to_ascii_lowercase())
    }

    /// Returns what an address names, in any case. Returns `None` if it is not a return path of these keys.
    pub fn parse(&self, address: &str) -> Option<BounceTarget> {
        let address = address.trim().trim_start_matches('<').to_ascii_lowercase();
        let (local, _domain) = address.split_once('@')?;
        let token: [u8; TOKEN_BYTES] = decode(local.strip_prefix(PREFIX)?)?;
        let (data, tag) = token.split_at(DATA_BYTES);
        let is_ours = |key: &ReturnPathKey| key.mac(data).verify_truncated_left(tag).is_ok();
        if !is_ours(&self.current) && !self.previous.iter().any(is_ours) {
            return None;
        }
        let (email_id, recipient) = data.split_at(16);
        let recipient = u16::from_be_bytes(recipient.try_into().ok()?);
        Some(BounceTarget { email_id: Uuid::from_slice(email_id).ok()?, recipient })
    }
}

/// Returns base32 without padding, five bytes to eight letters.
fn encode(bytes: &[u8]) -> String {
    let mut letters = String::with_capacity(TOKEN_LETTERS);
    for chunk in bytes.chunks_exact(5) {
        let bits = chunk.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        letters.extend((0..8).rev().map(|position| char::from(ALPHABET[(bits >> (position * 5) & 31) as usize])));
    }
    letters
}

fn decode(letters: &str) -> Option<[u8; TOKEN_BYTES]> {
    if letters.len() != TOKEN_LETTERS {
        return None;
    }
    let mut bytes = Vec::with_capacity(TOKEN_BYTES);
    for chunk in letters.as_bytes().chunks_exact(8) {
        let mut bits = 0_u64;
        for letter in chunk {
            bits = bits << 5 | ALPHABET.iter().position(|known| known == letter)? as u64;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[3..]);
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(current: u8, previous: Option<u8>) -> ReturnPathKeys {
        let key = |byte| ReturnPathKey::new([byte; 32]);
        ReturnPathKeys { current: key(current), previous: previous.map(key).into_iter().collect() }
    }

    fn target() -> BounceTarget {
        BounceTarget { email_id: Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc), recipient: 513 }
    }

    #[test]
    fn a_return_path_names_its_mail_and_recipient_in_any_case() {
        let address = keys(1, None).address(target(), "Bounces.Example.com");
        let (local, domain) = address.split_once('@').unwrap();
        assert_eq!(domain, "bounces.example.com");
        assert!(local.len() <= 64, "{local}");
        assert_eq!(address, address.to_lowercase());
        for variant in [address.clone(), address.to_uppercase(), format!("<{address}>")] {
            assert_eq!(keys(1, None).parse(&variant), Some(target()), "{variant}");
        }
    }

    #[test]
    fn a_key_that_was_rotated_still_verifies() {
        let old = keys(1, None).address(target(), "example.com");
        assert_eq!(keys(2, Some(1)).parse(&old), Some(target()));
        assert_eq!(keys(3, Some(2)).parse(&old), None);
    }

    #[test]
    fn a_return_path_with_any_letter_changed_is_not_ours() {
        let address = keys(1, None).address(target(), "example.com");
        for position in PREFIX.len()..PREFIX.len() + TOKEN_LETTERS {
            let mut forged = address.clone().into_bytes();
            forged[position] = if forged[position] == b'a' { b'b' } else { b'a' };
            assert_eq!(keys(1, None).parse(&String::from_utf8(forged).unwrap()), None, "letter {position}");
        }
        for other in ["", "@", "bounce+@example.com", "bounce+1@example.com", "someone@example.com"] {
            assert_eq!(keys(1, None).parse(other), None, "{other}");
        }
    }
}

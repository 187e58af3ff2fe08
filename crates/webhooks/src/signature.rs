//! Signatures by Standard Webhooks: an HMAC-SHA256 over `<id>.<timestamp>.<body>`, as `v1,<base64>`.
//!
//! While a secret is being replaced a message has several signatures, with spaces between them; one that fits is enough.
//! [`verify`] is for receivers, and compares in constant time.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use std::{fmt, str::FromStr};

/// The header with the message's id, by which receivers tell what they have seen.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// How old, or how far ahead of the receiver's clock, a message may be.
pub const TOLERANCE_S: i64 = 300;

const PREFIX: &str = "whsec_";
const NEW_BYTES: usize = 32;
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// More than anybody sends while a secret is replaced.
const MOST_SIGNATURES: usize = 16;

/// A shared secret, written as `whsec_<base64>`. It does not show itself in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Not a secret of the form `whsec_<base64>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret is whsec_ and 24 to 64 bytes in base64")]
pub struct NotASecret;

impl Secret {
    /// A new one, from the system's source of randomness.
    pub fn generate() -> Self {
        Self(rand::random::<[u8; NEW_BYTES]>().to_vec())
    }

    /// The secret of these bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, NotASecret> {
        if BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(NotASecret) }
    }

    /// `whsec_<base64>`, to be shown once to its owner.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `v1,<base64>`.
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let signature = self.mac(id, &timestamp_s.to_string(), body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(signature))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

impl FromStr for Secret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(NotASecret)?;
        Self::from_bytes(STANDARD.decode(encoded).map_err(|_| NotASecret)?)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a message's three headers say.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'h> {
    /// [`ID_HEADER`].
    pub id: &'h str,
    /// [`TIMESTAMP_HEADER`].
    pub timestamp: &'h str,
    /// [`SIGNATURE_HEADER`].
    pub signature: &'h str,
}

/// Why a message is not to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotVerified {
    /// The time is not a whole number of seconds.
    #[error("the header webhook-timestamp is not a number of seconds")]
    BadTimestamp,
    /// Too old, or from the future: it may be somebody's copy.
    #[error("the message is older or newer than {TOLERANCE_S} s")]
    NotNow,
    /// No signature fits the secret.
    #[error("no signature fits: the body was changed on its way, or the secret is another")]
    NoMatch,
}

/// Whether somebody who knows `secret` sent these bytes, about `now`. `body` must be as it came, before any parsing.
pub fn verify(secret: &Secret, signed: &Signed<'_>, body: &[u8], now: Timestamp) -> Result<(), NotVerified> {
    let at: i64 = signed.timestamp.parse().map_err(|_| NotVerified::BadTimestamp)?;
    let given = signed.signature.split(' ').take(MOST_SIGNATURES).filter_map(|one| one.strip_prefix("v1,"));
    let mut fits = false;
    for signature in given.filter_map(|encoded| STANDARD.decode(encoded).ok()) {
        fits |= secret.mac(signed.id, signed.timestamp, body).verify_slice(&signature).is_ok();
    }
    match fits {
        false => Err(NotVerified::NoMatch),
        true if now.as_second().abs_diff(at) > TOLERANCE_S.unsigned_abs() => Err(NotVerified::NotNow),
        true => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secret() -> Secret {
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap()
    }

    fn check(secret: &Secret, id: &str, timestamp: &str, signature: &str, body: &[u8]) -> Result<(), NotVerified> {
        verify(secret, &Signed { id, timestamp, signature }, body, Timestamp::from_second(AT + 10).unwrap())
    }

    #[test]
    fn the_standards_own_example_is_signed_and_verified() {
        assert_eq!(secret().sign(ID, AT, BODY), SIGNATURE);
        assert_eq!(check(&secret(), ID, "1614265330", SIGNATURE, BODY), Ok(()));
    }

    #[test]
    fn whatever_is_changed_does_not_fit() {
        assert_eq!(check(&secret(), "msg_other", "1614265330", SIGNATURE, BODY), Err(NotVerified::NoMatch));
        assert_eq!(check(&secret(), ID, "1614265331", SIGNATURE, BODY), Err(NotVerified::NoMatch));
        assert_eq!(check(&secret(), ID, "1614265330", SIGNATURE, b"{}"), Err(NotVerified::NoMatch));
        assert_eq!(check(&Secret::generate(), ID, "1614265330", SIGNATURE, BODY), Err(NotVerified::NoMatch));
        assert_eq!(
            check(&secret(), ID, "1614265330", &SIGNATURE.replace("v1,", "v2,"), BODY),
            Err(NotVerified::NoMatch)
        );
        assert_eq!(check(&secret(), ID, "1614265330", "v1,", BODY), Err(NotVerified::NoMatch));
        assert_eq!(check(&secret(), ID, "soon", SIGNATURE, BODY), Err(NotVerified::BadTimestamp));
    }

    #[test]
    fn one_signature_of_several_is_enough() {
        let signatures = format!("{} v1a,other {SIGNATURE}", Secret::generate().sign(ID, AT, BODY));
        assert_eq!(check(&secret(), ID, "1614265330", &signatures, BODY), Ok(()));
    }

    #[test]
    fn a_copy_of_an_old_message_is_refused_and_so_is_one_from_the_future() {
        for at in [AT - TOLERANCE_S + 9, AT + TOLERANCE_S + 11] {
            let signature = secret().sign(ID, at, BODY);
            assert_eq!(check(&secret(), ID, &at.to_string(), &signature, BODY), Err(NotVerified::NotNow));
        }
        assert_eq!(check(&secret(), ID, "-9223372036854775808", SIGNATURE, BODY), Err(NotVerified::NoMatch));
    }

    #[test]
    fn a_secret_reads_back_and_hides_itself() {
        let secret = Secret::generate();
        assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        for bad in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_***"] {
            assert_eq!(bad.parse::<Secret>(), Err(NotASecret), "{bad}");
        }
    }
}

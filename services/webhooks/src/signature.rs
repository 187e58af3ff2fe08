//! Signatures according to Standard Webhooks: an HMAC-SHA256 over `<id>.<timestamp>.<body>`, as `v1,<base64>`.
//!
//! While a secret is being replaced, a message has several signatures, separated by spaces; one match is enough.
//! [`verify`] is for receivers, and compares in constant time.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use std::{fmt, str::FromStr};

/// The header with the message's id, by which receivers detect duplicates.
pub const ID_HEADER: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// How old, or how far ahead of the receiver's clock, a message may be.
pub const TOLERANCE_S: i64 = 300;

const PREFIX: &str = "whsec_";
const GENERATED_BYTES: usize = 32;
const ALLOWED_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// More signatures than any sender uses while a secret is being replaced.
const MAX_SIGNATURES: usize = 16;

/// A shared secret, written as `whsec_<base64>`. It is redacted in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

/// The error for text that is not a secret of the form `whsec_<base64>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a webhook secret is whsec_ followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

impl WebhookSecret {
    /// Generates a secret from the system's source of randomness.
    pub fn generate() -> Self {
        Self(rand::random::<[u8; GENERATED_BYTES]>().to_vec())
    }

    /// Creates a secret from these bytes. Fails if their number is out of range.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, InvalidSecret> {
        if ALLOWED_BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(InvalidSecret) }
    }

    /// Returns the secret as `whsec_<base64>`, to be shown once to its owner.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the signature as `v1,<base64>`.
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let signature = self.mac(id, &timestamp_s.to_string(), body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(signature))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

impl FromStr for WebhookSecret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret)?;
        Self::from_bytes(STANDARD.decode(encoded).map_err(|_| InvalidSecret)?)
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The values of a message's three headers.
#[derive(Clone, Copy, Debug)]
pub struct SignatureHeaders<'h> {
    /// [`ID_HEADER`].
    pub id: &'h str,
    /// [`TIMESTAMP_HEADER`].
    pub timestamp: &'h str,
    /// [`SIGNATURE_HEADER`].
    pub signature: &'h str,
}

/// Why a message could not be verified and must not be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    /// The time is not a whole number of seconds.
    #[error("the header webhook-timestamp is not a number of seconds")]
    InvalidTimestamp,
    /// The message is too old or from the future: it may be a replayed copy.
    #[error("the message's time differs from the current time by more than {TOLERANCE_S} s")]
    OutsideTolerance,
    /// No signature matches the secret.
    #[error("no signature matches: the body was changed in transit, or the secret is a different one")]
    NoMatch,
}

/// Checks that a sender with `secret` sent these bytes at about `now`. `body` must be as received, before any
/// parsing.
pub fn verify(
    secret: &WebhookSecret,
    headers: &SignatureHeaders<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), VerificationError> {
    let at: i64 = headers.timestamp.parse().map_err(|_| VerificationError::InvalidTimestamp)?;
    let signatures =
        headers.signature.split(' ').take(MAX_SIGNATURES).filter_map(|signature| signature.strip_prefix("v1,"));
    let mut matches = false;
    for signature in signatures.filter_map(|encoded| STANDARD.decode(encoded).ok()) {
        matches |= secret.mac(headers.id, headers.timestamp, body).verify_slice(&signature).is_ok();
    }
    match matches {
        false => Err(VerificationError::NoMatch),
        true if now.as_second().abs_diff(at) > TOLERANCE_S.unsigned_abs() => Err(VerificationError::OutsideTolerance),
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

    fn secret() -> WebhookSecret {
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap()
    }

    fn check(
        secret: &WebhookSecret,
        id: &str,
        timestamp: &str,
        signature: &str,
        body: &[u8],
    ) -> Result<(), VerificationError> {
        verify(secret, &SignatureHeaders { id, timestamp, signature }, body, Timestamp::from_second(AT + 10).unwrap())
    }

    #[test]
    fn the_example_of_standard_webhooks_is_signed_and_verified() {
        assert_eq!(secret().sign(ID, AT, BODY), SIGNATURE);
        assert_eq!(check(&secret(), ID, "1614265330", SIGNATURE, BODY), Ok(()));
    }

    #[test]
    fn a_change_to_any_part_of_the_message_is_detected() {
        assert_eq!(check(&secret(), "msg_other", "1614265330", SIGNATURE, BODY), Err(VerificationError::NoMatch));
        assert_eq!(check(&secret(), ID, "1614265331", SIGNATURE, BODY), Err(VerificationError::NoMatch));
        assert_eq!(check(&secret(), ID, "1614265330", SIGNATURE, b"{}"), Err(VerificationError::NoMatch));
        assert_eq!(
            check(&WebhookSecret::generate(), ID, "1614265330", SIGNATURE, BODY),
            Err(VerificationError::NoMatch)
        );
        assert_eq!(
            check(&secret(), ID, "1614265330", &SIGNATURE.replace("v1,", "v2,"), BODY),
            Err(VerificationError::NoMatch)
        );
        assert_eq!(check(&secret(), ID, "1614265330", "v1,", BODY), Err(VerificationError::NoMatch));
        assert_eq!(check(&secret(), ID, "soon", SIGNATURE, BODY), Err(VerificationError::InvalidTimestamp));
    }

    #[test]
    fn one_matching_signature_of_several_is_enough() {
        let signatures = format!("{} v1a,other {SIGNATURE}", WebhookSecret::generate().sign(ID, AT, BODY));
        assert_eq!(check(&secret(), ID, "1614265330", &signatures, BODY), Ok(()));
    }

    #[test]
    fn messages_that_are_too_old_or_from_the_future_are_rejected() {
        for at in [AT - TOLERANCE_S + 9, AT + TOLERANCE_S + 11] {
            let signature = secret().sign(ID, at, BODY);
            assert_eq!(
                check(&secret(), ID, &at.to_string(), &signature, BODY),
                Err(VerificationError::OutsideTolerance)
            );
        }
        assert_eq!(check(&secret(), ID, "-9223372036854775808", SIGNATURE, BODY), Err(VerificationError::NoMatch));
    }

    #[test]
    fn a_secret_parses_its_own_text_and_is_redacted_in_debug_output() {
        let secret = WebhookSecret::generate();
        assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "WebhookSecret(…)");
        for bad in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_***"] {
            assert_eq!(bad.parse::<WebhookSecret>(), Err(InvalidSecret), "{bad}");
        }
    }
}

//! The provider's signature, by Standard Webhooks: an HMAC-SHA256 over `<id>.<timestamp>.<body>`, as `v1,<base64>`.
//!
//! While a secret is being replaced, a request has several signatures and the settings have several secrets, both separated by
//! spaces; one matching pair is enough. Signatures are compared in constant time.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// The maximum age of a request, and how far it may be ahead of our clock.
const TOLERANCE_S: i64 = 300;
/// More than any sender uses while a secret is being replaced.
const SIGNATURES_MAX: usize = 8;
const SECRETS_MAX: usize = 4;

/// The values of the three headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedHeaders<'h> {
    pub id: &'h str,
    pub timestamp: &'h str,
    pub signatures: &'h str,
}

/// The request was not signed with one of our secrets, or not within the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotVerified;

impl SignedHeaders<'_> {
    /// Checks that a holder of one of `secrets` (`whsec_<base64>`, separated by spaces) sent `body` at about `now`.
    pub(super) fn verify(&self, secrets: &str, body: &[u8], now: Timestamp) -> Result<(), NotVerified> {
        let at: i64 = self.timestamp.parse().map_err(|_| NotVerified)?;
        let decode = |encoded: &str| STANDARD.decode(encoded).ok();
        let signatures = self.signatures.split(' ').take(SIGNATURES_MAX).filter_map(|one| one.strip_prefix("v1,"));
        let signatures: Vec<Vec<u8>> = signatures.filter_map(decode).collect();
        let mut matches = false;
        for secret in secrets.split_whitespace().take(SECRETS_MAX) {
            let secret = secret.strip_prefix("whsec_").and_then(decode).filter(|secret| !secret.is_empty());
            for signature in &signatures {
                matches |= secret.as_deref().is_some_and(|secret| self.is_signed(secret, body, signature));
            }
        }
        let is_timely = now.as_second().abs_diff(at) <= TOLERANCE_S.unsigned_abs();
        if matches && is_timely { Ok(()) } else { Err(NotVerified) }
    }

    fn is_signed(&self, secret: &[u8], body: &[u8], signature: &[u8]) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC accepts keys of any length");
        for part in [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac.verify_slice(signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of the signature's documentation.
    const SECRET: &str = "whsec_plJ3nmyCDGBKInavdOK15jsl";
    const BODY: &[u8] = br#"{"event_type":"ping","data":{"success":true}}"#;
    const AT: i64 = 1_731_705_121;
    const HEADERS: SignedHeaders<'static> = SignedHeaders {
        id: "msg_loFOjxBNrRLzqYUf",
        timestamp: "1731705121",
        signatures: "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    };

    fn verify(headers: SignedHeaders<'_>, secrets: &str, body: &[u8], at: i64) -> bool {
        headers.verify(secrets, body, Timestamp::from_second(at).unwrap()).is_ok()
    }

    #[test]
    fn the_documented_example_is_verified_and_every_change_is_not() {
        assert!(verify(HEADERS, SECRET, BODY, AT));
        assert!(!verify(HEADERS, SECRET, b"{}", AT));
        assert!(!verify(HEADERS, "", BODY, AT) && !verify(HEADERS, "whsec_", BODY, AT));
        assert!(!verify(HEADERS, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", BODY, AT));
        assert!(!verify(SignedHeaders { id: "msg_2", ..HEADERS }, SECRET, BODY, AT));
        assert!(!verify(SignedHeaders { timestamp: "1731705122", ..HEADERS }, SECRET, BODY, AT));
        assert!(!verify(SignedHeaders { timestamp: "", ..HEADERS }, SECRET, BODY, AT));
        assert!(!verify(
            SignedHeaders { signatures: &HEADERS.signatures.replace("v1", "v2"), ..HEADERS },
            SECRET,
            BODY,
            AT
        ));
    }

    #[test]
    fn one_matching_pair_is_enough_and_a_signature_is_valid_for_five_minutes() {
        let signatures = format!("v1,AAAA v2,x {}", HEADERS.signatures);
        let several = SignedHeaders { signatures: &signatures, ..HEADERS };
        assert!(verify(several, &format!("whsec_AAAA {SECRET}"), BODY, AT));
        for (at, is_valid) in [(AT + 300, true), (AT + 301, false), (AT - 300, true), (AT - 301, false)] {
            assert_eq!(verify(HEADERS, SECRET, BODY, at), is_valid, "{}", at - AT);
        }
    }
}

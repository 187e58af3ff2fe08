//! Stripe's signature of a webhook: `t=<seconds>,v1=<hex>`, an HMAC-SHA256 over `<t>.<body>`.
//!
//! While a secret is being replaced, the header may contain several signatures and we may have several secrets; one
//! matching pair is enough. Signatures are compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// The maximum age of a signature, and how far it may be ahead of our clock.
pub(crate) const TOLERANCE_S: i64 = 300;
/// More than any gateway sends while a secret is being replaced.
const MAX_SIGNATURES: usize = 8;
/// Replaces the secret of an unknown sender, so that the response takes as long as for a known one.
const DUMMY_SECRET: &str = "a secret that nobody has";

/// Returns whether `header` proves that a holder of one of `secrets` sent `body` at about `now`.
pub(crate) fn is_valid(header: &str, body: &[u8], secrets: &[String], now: Timestamp) -> bool {
    let Some(signed) = SignatureHeader::parse(header) else {
        return false;
    };
    let timely = (now.as_second() - signed.at).abs() <= TOLERANCE_S;
    let known = !secrets.is_empty();
    let dummy = [DUMMY_SECRET.to_owned()];
    let mut matches = false;
    for secret in if known { secrets } else { &dummy } {
        for signature in &signed.signatures {
            matches |= is_signed(secret, &signed.at.to_string(), body, signature);
        }
    }
    timely && known && matches
}

fn is_signed(secret: &str, at: &str, body: &[u8], signature: &[u8]) -> bool {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mut mac = mac.expect("HMAC accepts keys of any length");
    for part in [at.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac.verify_slice(signature).is_ok()
}

/// The parsed header.
struct SignatureHeader {
    at: i64,
    signatures: Vec<Vec<u8>>,
}

impl SignatureHeader {
    fn parse(header: &str) -> Option<Self> {
        let (mut at, mut signatures) = (None, Vec::new());
        for part in header.split(',') {
            match part.trim().split_once('=')? {
                // The signature covers this text, so the number must have the same spelling when it is written again.
                ("t", text) if at.is_none() => {
                    let seconds: i64 = text.parse().ok()?;
                    at = (seconds.to_string() == text).then_some(Some(seconds))?;
                }
                ("t", _) => return None,
                ("v1", hex) if signatures.len() < MAX_SIGNATURES => signatures.extend(hex::decode(hex)),
                _ => {}
            }
        }
        Some(Self { at: at?, signatures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_test_secret_of_ours";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"id":"evt_1","object":"event"}"#;
    // printf '1614265330.{"id":"evt_1","object":"event"}' | openssl dgst -sha256 -hmac 'whsec_test_secret_of_ours'
    const SIGNATURE: &str = "eadf93d8674434ed14793035d5d01b00e8c39e0f552ba0a2b13dd836906aa2fa";

    fn check(header: &str, body: &[u8], secrets: &[&str], at: i64) -> bool {
        let secrets: Vec<String> = secrets.iter().map(ToString::to_string).collect();
        is_valid(header, body, &secrets, Timestamp::from_second(at).unwrap())
    }

    #[test]
    fn a_signature_is_valid_for_its_body_only() {
        let header = format!("t={AT},v1={SIGNATURE}");
        assert!(check(&header, BODY, &[SECRET], AT));
        assert!(!check(&header, b"{}", &[SECRET], AT));
        assert!(!check(&header, BODY, &["whsec_another_secret"], AT));
        assert!(!check(&format!("t={},v1={SIGNATURE}", AT + 1), BODY, &[SECRET], AT));
    }

    #[test]
    fn one_matching_pair_is_enough_while_a_secret_is_replaced() {
        let other = "00".repeat(32);
        let header = format!("t={AT},v1={other},v1={SIGNATURE},v0={other}");
        assert!(check(&header, BODY, &["whsec_the_new_one", SECRET], AT));
        assert!(!check(&format!("t={AT},v0={SIGNATURE}"), BODY, &[SECRET], AT), "another scheme");
    }

    #[test]
    fn a_signature_is_valid_for_five_minutes_in_both_directions() {
        let header = format!("t={AT},v1={SIGNATURE}");
        for (at, timely) in [(AT + 300, true), (AT - 300, true), (AT + 301, false), (AT - 301, false)] {
            assert_eq!(check(&header, BODY, &[SECRET], at), timely, "{}", at - AT);
        }
    }

    #[test]
    fn a_malformed_header_is_invalid() {
        let no_signature = format!("t={AT}");
        let short = format!("t={AT},v1={}", &SIGNATURE[2..]);
        let twice = format!("t={AT},t={AT},v1={SIGNATURE}");
        let padded = format!("t=0{AT},v1={SIGNATURE}");
        let no_time = format!("v1={SIGNATURE}");
        let not_hex = format!("t={AT},v1=zz{}", &SIGNATURE[2..]);
        for header in ["", "v1", "t=,v1=", &no_signature, &short, &twice, &padded, &no_time, &not_hex] {
            assert!(!check(header, BODY, &[SECRET], AT), "{header}");
        }
        let good = format!("t={AT},v1={SIGNATURE}");
        assert!(!check(&good, BODY, &[], AT), "a tenant without a secret");
        let dummy = Hmac::<Sha256>::new_from_slice(DUMMY_SECRET.as_bytes()).unwrap();
        let forged = dummy.chain_update(format!("{AT}.")).chain_update(BODY).finalize().into_bytes();
        assert!(
            !check(&format!("t={AT},v1={}", hex::encode(forged)), BODY, &[], AT),
            "the dummy secret is not accepted either"
        );
    }
}

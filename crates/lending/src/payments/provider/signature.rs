//! Stripe's signature of a webhook: `t=<seconds>,v1=<hex>`, an HMAC-SHA256 over `<t>.<body>`.
//!
//! While a secret is being replaced there may be several signatures, and several secrets of ours; one pair that fits is
//! enough. Signatures are compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// How old, or how far ahead of our clock, a signature may be.
pub(crate) const TOLERANCE_S: i64 = 300;
/// More than anybody sends while a secret is replaced.
const MOST_SIGNATURES: usize = 8;
/// Stands in for the secret of whom we do not know, so that they wait as long for the answer as others.
const NOBODY: &str = "nobody has this secret, and it opens nothing";

/// Whether `header` proves that somebody with one of `secrets` sent `body`, about `now`.
pub(crate) fn proves(header: &str, body: &[u8], secrets: &[String], now: Timestamp) -> bool {
    let Some(signed) = Signed::read(header) else {
        return false;
    };
    let timely = (now.as_second() - signed.at).abs() <= TOLERANCE_S;
    let known = !secrets.is_empty();
    let nobody = [NOBODY.to_owned()];
    let mut fits = false;
    for secret in if known { secrets } else { &nobody } {
        for signature in &signed.signatures {
            fits |= is_signed(secret, &signed.at.to_string(), body, signature);
        }
    }
    timely && known && fits
}

fn is_signed(secret: &str, at: &str, body: &[u8], signature: &[u8]) -> bool {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mut mac = mac.expect("HMAC takes keys of any length");
    for part in [at.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac.verify_slice(signature).is_ok()
}

struct Signed {
    at: i64,
    signatures: Vec<Vec<u8>>,
}

impl Signed {
    fn read(header: &str) -> Option<Self> {
        let (mut at, mut signatures) = (None, Vec::new());
        for part in header.split(',') {
            match part.trim().split_once('=')? {
                // Written the same way again, it is what was signed.
                ("t", text) if at.is_none() => {
                    let seconds: i64 = text.parse().ok()?;
                    at = (seconds.to_string() == text).then_some(Some(seconds))?;
                }
                ("t", _) => return None,
                ("v1", hex) if signatures.len() < MOST_SIGNATURES => signatures.extend(hex::decode(hex)),
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
        proves(header, body, &secrets, Timestamp::from_second(at).unwrap())
    }

    #[test]
    fn the_known_signature_proves_its_body_and_no_other() {
        let header = format!("t={AT},v1={SIGNATURE}");
        assert!(check(&header, BODY, &[SECRET], AT));
        assert!(!check(&header, b"{}", &[SECRET], AT));
        assert!(!check(&header, BODY, &["whsec_another_secret"], AT));
        assert!(!check(&format!("t={},v1={SIGNATURE}", AT + 1), BODY, &[SECRET], AT));
    }

    #[test]
    fn one_pair_that_fits_is_enough_while_a_secret_is_replaced() {
        let other = "00".repeat(32);
        let header = format!("t={AT},v1={other},v1={SIGNATURE},v0={other}");
        assert!(check(&header, BODY, &["whsec_the_new_one", SECRET], AT));
        assert!(!check(&format!("t={AT},v0={SIGNATURE}"), BODY, &[SECRET], AT), "another scheme");
    }

    #[test]
    fn it_holds_for_five_minutes_in_both_directions() {
        let header = format!("t={AT},v1={SIGNATURE}");
        for (at, timely) in [(AT + 300, true), (AT - 300, true), (AT + 301, false), (AT - 301, false)] {
            assert_eq!(check(&header, BODY, &[SECRET], at), timely, "{}", at - AT);
        }
    }

    #[test]
    fn what_is_no_signature_proves_nothing() {
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
        let nobody = Hmac::<Sha256>::new_from_slice(NOBODY.as_bytes()).unwrap();
        let forged = nobody.chain_update(format!("{AT}.")).chain_update(BODY).finalize().into_bytes();
        assert!(!check(&format!("t={AT},v1={}", hex::encode(forged)), BODY, &[], AT), "not even the stand-in's");
    }
}

//! The key of a start from a page: created and signed here, so that nobody can choose it for somebody else.
//!
//! `<random>.<seconds since 1970>.<HMAC-SHA256 of link, random and seconds>`. The start page has it in its form, and
//! the browser in a cookie that is not sent with forms of other sites: only a request with both can start the session
//! of this key.

use crate::token::{TokenError, TokenSigner};
use jiff::Timestamp;
use uuid::Uuid;

/// The lifetime of a start page, in seconds.
pub(super) const VALID_FOR_S: i64 = 24 * 60 * 60;
const PURPOSE: &str = "onceward start page v1 ";

/// Creates a new key for the start page of `link`.
pub(super) fn issue(signer: &TokenSigner, link: &str, now: Timestamp) -> Result<String, TokenError> {
    let body = format!("{}.{}", Uuid::new_v4().simple(), now.as_second());
    let code = signer.authenticate(PURPOSE, &signed_text(link, &body))?;
    Ok(format!("{body}.{code}"))
}

/// Returns whether `key` was issued for `link` and has not expired.
pub(super) fn is_valid(signer: &TokenSigner, link: &str, key: &str, now: Timestamp) -> Result<bool, TokenError> {
    let Some((body, code)) = key.rsplit_once('.') else {
        return Ok(false);
    };
    if !signer.is_authentic(PURPOSE, &signed_text(link, body), code)? {
        return Ok(false);
    }
    let issued = body.rsplit_once('.').and_then(|(_, seconds)| seconds.parse::<i64>().ok());
    Ok(issued.is_some_and(|issued| now.as_second().saturating_sub(issued) < VALID_FOR_S))
}

fn signed_text(link: &str, body: &str) -> String {
    format!("{link} {body}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SecretSetting;

    #[test]
    fn a_key_is_valid_for_its_link_until_it_expires() {
        let signer = TokenSigner::new(&SecretSetting("a secret that is long enough for it".into()));
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = issue(&signer, "link", at(1_000)).unwrap();
        let valid = |link: &str, key: &str, now| is_valid(&signer, link, key, now).unwrap();
        assert!(valid("link", &key, at(1_000)) && valid("link", &key, at(1_000 + VALID_FOR_S - 1)));
        assert!(!valid("link", &key, at(1_000 + VALID_FOR_S)), "the key has expired");
        assert!(!valid("other", &key, at(1_000)), "the key belongs to another link");
        assert_ne!(key, issue(&signer, "link", at(1_000)).unwrap());
        let later = key.replacen(".1000.", ".2000.", 1);
        for chosen in ["", ".", "a.b", "evil", &later, &format!("{key}x")] {
            assert!(!valid("link", chosen, at(1_000)), "{chosen}");
        }
    }
}

//! Live-view links, which a browser uses instead of a tenant's token. A link opens the live view of one survey until it
//! expires, and nothing else.
//!
//! `<tenant>~<survey>~<expiry>` in base64url, a dot, and an HMAC-SHA256 of it.

use crate::{settings::SecretSetting, token::TokenError};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward::TenantId;
use sha2::Sha256;
use uuid::Uuid;

const SECRET_BYTES_MIN: usize = 32;
/// Longer than any token that we sign.
const TOKEN_BYTES_MAX: usize = 1024;

/// The contents of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveLink {
    pub(crate) tenant: TenantId,
    pub(crate) survey_id: Uuid,
    pub(crate) expires_at: Timestamp,
}

/// Signs and verifies links.
#[derive(Clone)]
pub(crate) struct LiveLinkSigner {
    key: Option<Hmac<Sha256>>,
}

impl LiveLinkSigner {
    pub(crate) fn new(secret: &SecretSetting) -> Self {
        let is_long_enough = secret.0.len() >= SECRET_BYTES_MIN;
        Self {
            key: is_long_enough
                .then(|| Hmac::new_from_slice(secret.0.as_bytes()).expect("HMAC accepts keys of any length")),
        }
    }

    pub(crate) fn sign(&self, link: &LiveLink) -> Result<String, TokenError> {
        let body = BASE64.encode(format!("{}~{}~{}", link.tenant, link.survey_id, link.expires_at.as_second()));
        let signature = self.mac(&body)?.finalize().into_bytes();
        Ok(format!("{body}.{}", BASE64.encode(signature)))
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<LiveLink, TokenError> {
        let (body, signature) =
            token.split_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX).ok_or(TokenError::Invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| TokenError::Invalid)?;
        self.mac(body)?.verify_slice(&signature).map_err(|_| TokenError::Invalid)?;
        let link = parse(body).ok_or(TokenError::Invalid)?;
        if link.expires_at <= now { Err(TokenError::Expired) } else { Ok(link) }
    }

    /// The signed text has its own prefix, so that neither a respondent's token is accepted as a link nor a link as a
    /// token.
    fn mac(&self, body: &str) -> Result<Hmac<Sha256>, TokenError> {
        let mut mac = self.key.clone().ok_or(TokenError::NoSecret)?;
        mac.update(b"onceward live view v1 ");
        mac.update(body.as_bytes());
        Ok(mac)
    }
}

fn parse(body: &str) -> Option<LiveLink> {
    let text = String::from_utf8(BASE64.decode(body).ok()?).ok()?;
    let mut parts = text.rsplitn(3, '~');
    let expires_at = Timestamp::from_second(parts.next()?.parse().ok()?).ok()?;
    let survey_id = parts.next()?.parse().ok()?;
    Some(LiveLink { tenant: TenantId::new(parts.next()?).ok()?, survey_id, expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{TokenClaim, TokenSigner};

    fn signer() -> LiveLinkSigner {
        LiveLinkSigner::new(&SecretSetting("a secret that is long enough for it".into()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_link_opens_its_survey_until_it_expires() {
        let link =
            LiveLink { tenant: TenantId::new("acme").unwrap(), survey_id: Uuid::now_v7(), expires_at: at(1_000) };
        let token = signer().sign(&link).unwrap();
        assert_eq!(signer().verify(&token, at(999)), Ok(link));
        assert_eq!(signer().verify(&token, at(1_000)), Err(TokenError::Expired));
    }

    #[test]
    fn a_changed_link_and_a_respondents_token_are_rejected() {
        let link =
            LiveLink { tenant: TenantId::new("acme").unwrap(), survey_id: Uuid::now_v7(), expires_at: at(1_000) };
        let token = signer().sign(&link).unwrap();
        let (_, signature) = token.split_once('.').unwrap();
        let other = BASE64.encode(format!("other~{}~1000", link.survey_id));
        let claim = TokenClaim::Collector { tenant: "acme".into(), collector: link.survey_id };
        let respondents =
            TokenSigner::new(&SecretSetting("a secret that is long enough for it".into())).sign(&claim).unwrap();
        for bad in [format!("{other}.{signature}"), respondents, String::new(), "x".repeat(5_000)] {
            assert_eq!(signer().verify(&bad, at(1)), Err(TokenError::Invalid), "{bad}");
        }
        assert_eq!(LiveLinkSigner::new(&SecretSetting("short".into())).sign(&link), Err(TokenError::NoSecret));
    }
}

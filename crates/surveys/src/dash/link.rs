//! Live-view links: what a browser shows instead of a tenant's token. One opens the live view of one survey, for a time, and
//! nothing else.
//!
//! `<tenant>~<survey>~<until>` in base64url, a dot, and an HMAC-SHA256 of it.

use crate::{settings::Secret, token::TokenError};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward::TenantId;
use sha2::Sha256;
use uuid::Uuid;

const SECRET_BYTES: usize = 32;
/// Longer than any that we sign.
const TOKEN_BYTES: usize = 1024;

/// What a link opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) tenant: TenantId,
    pub(crate) survey_id: Uuid,
    pub(crate) until: Timestamp,
}

/// Signs and reads links.
#[derive(Clone)]
pub(crate) struct Links {
    key: Option<Hmac<Sha256>>,
}

impl Links {
    pub(crate) fn new(secret: &Secret) -> Self {
        let long = secret.0.len() >= SECRET_BYTES;
        Self { key: long.then(|| Hmac::new_from_slice(secret.0.as_bytes()).expect("HMAC takes keys of any length")) }
    }

    pub(crate) fn sign(&self, view: &View) -> Result<String, TokenError> {
        let body = BASE64.encode(format!("{}~{}~{}", view.tenant, view.survey_id, view.until.as_second()));
        let signature = self.mac(&body)?.finalize().into_bytes();
        Ok(format!("{body}.{}", BASE64.encode(signature)))
    }

    pub(crate) fn read(&self, token: &str, now: Timestamp) -> Result<View, TokenError> {
        let (body, signature) =
            token.split_once('.').filter(|_| token.len() <= TOKEN_BYTES).ok_or(TokenError::Invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| TokenError::Invalid)?;
        self.mac(body)?.verify_slice(&signature).map_err(|_| TokenError::Invalid)?;
        let view = parse(body).ok_or(TokenError::Invalid)?;
        if view.until <= now { Err(TokenError::Expired) } else { Ok(view) }
    }

    /// No respondent's token passes for a link, nor a link for one: what is signed begins differently.
    fn mac(&self, body: &str) -> Result<Hmac<Sha256>, TokenError> {
        let mut mac = self.key.clone().ok_or(TokenError::NoSecret)?;
        mac.update(b"onceward live view v1 ");
        mac.update(body.as_bytes());
        Ok(mac)
    }
}

fn parse(body: &str) -> Option<View> {
    let text = String::from_utf8(BASE64.decode(body).ok()?).ok()?;
    let mut parts = text.rsplitn(3, '~');
    let until = Timestamp::from_second(parts.next()?.parse().ok()?).ok()?;
    let survey_id = parts.next()?.parse().ok()?;
    Some(View { tenant: TenantId::new(parts.next()?).ok()?, survey_id, until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Claim, Signer};

    fn links() -> Links {
        Links::new(&Secret("a secret that is long enough for it".into()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_link_opens_its_survey_until_its_time_is_over() {
        let view = View { tenant: TenantId::new("acme").unwrap(), survey_id: Uuid::now_v7(), until: at(1_000) };
        let token = links().sign(&view).unwrap();
        assert_eq!(links().read(&token, at(999)), Ok(view));
        assert_eq!(links().read(&token, at(1_000)), Err(TokenError::Expired));
    }

    #[test]
    fn a_changed_link_and_a_respondents_token_open_nothing() {
        let view = View { tenant: TenantId::new("acme").unwrap(), survey_id: Uuid::now_v7(), until: at(1_000) };
        let token = links().sign(&view).unwrap();
        let (_, signature) = token.split_once('.').unwrap();
        let other = BASE64.encode(format!("other~{}~1000", view.survey_id));
        let claim = Claim::Collector { tenant: "acme".into(), collector: view.survey_id };
        let respondents = Signer::new(&Secret("a secret that is long enough for it".into())).sign(&claim).unwrap();
        for bad in [format!("{other}.{signature}"), respondents, String::new(), "x".repeat(5_000)] {
            assert_eq!(links().read(&bad, at(1)), Err(TokenError::Invalid), "{bad}");
        }
        assert_eq!(Links::new(&Secret("short".into())).sign(&view), Err(TokenError::NoSecret));
    }
}

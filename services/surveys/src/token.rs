//! Respondents' tokens, used instead of a tenant's token: signed by us, and valid for one collector, invite or session.
//!
//! `<claim as JSON, base64url>.<HMAC-SHA256, base64url>`. A token grants access only to the object it names, in the
//! tenant it names.

use crate::settings::SecretSetting;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward::TenantId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use uuid::Uuid;

const SECRET_BYTES_MIN: usize = 32;
/// Longer than any token that we sign.
const TOKEN_BYTES_MAX: usize = 1024;

/// The rights that a token grants its bearer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum TokenClaim {
    /// Start a session, through a link that many respondents share.
    Collector {
        /// The tenant.
        tenant: String,
        /// The collector.
        collector: Uuid,
    },
    /// Start one session.
    Invite {
        /// The tenant.
        tenant: String,
        /// The collector.
        collector: Uuid,
        /// The invite.
        invite: Uuid,
    },
    /// Continue a session.
    Session(SessionClaim),
}

/// A session that the bearer may continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaim {
    /// The tenant.
    pub tenant: String,
    /// The survey.
    pub survey: Uuid,
    /// The collector through which it was started.
    pub collector: Uuid,
    /// The session.
    pub session: Uuid,
    /// The expiry time in seconds since 1970.
    #[serde(rename = "until")]
    pub expires_at: i64,
}

/// Why a token was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// We did not sign it.
    #[error("The respondent's token is not valid.")]
    Invalid,
    /// It has expired.
    #[error("The respondent's token has expired. Start again from the link.")]
    Expired,
    /// No secret is configured for signing.
    #[error("Neither surveys.token_secret nor auth.secret is set. Set one of them to at least 32 bytes.")]
    NoSecret,
}

/// Signs and verifies tokens.
#[derive(Clone)]
pub struct TokenSigner {
    key: Option<Hmac<Sha256>>,
}

impl TokenSigner {
    /// Creates a signer with this secret. Signing and verifying fail if it is too short.
    pub fn new(secret: &SecretSetting) -> Self {
        let is_long_enough = secret.0.len() >= SECRET_BYTES_MIN;
        let key =
            is_long_enough.then(|| Hmac::new_from_slice(secret.0.as_bytes()).expect("HMAC accepts keys of any length"));
        Self { key }
    }

    /// Signs the claim and returns the token.
    pub fn sign(&self, claim: &TokenClaim) -> Result<String, TokenError> {
        let text = serde_json::to_vec(claim).map_err(|_| TokenError::Invalid)?;
        let body = BASE64.encode(text);
        let signature = self.mac(&body)?.finalize().into_bytes();
        Ok(format!("{body}.{}", BASE64.encode(signature)))
    }

    /// Returns the claim of a token. Fails if we did not sign it or it has expired.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<TokenClaim, TokenError> {
        let (body, signature) = token.split_once('.').ok_or(TokenError::Invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| TokenError::Invalid)?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Invalid);
        }
        self.mac(body)?.verify_slice(&signature).map_err(|_| TokenError::Invalid)?;
        let text = BASE64.decode(body).map_err(|_| TokenError::Invalid)?;
        let claim = serde_json::from_slice(&text).map_err(|_| TokenError::Invalid)?;
        match &claim {
            TokenClaim::Session(session) if session.expires_at <= now.as_second() => Err(TokenError::Expired),
            _ => Ok(claim),
        }
    }

    /// Returns an authentication code of `body`. Codes for different purposes are independent.
    pub(crate) fn authenticate(&self, purpose: &str, body: &str) -> Result<String, TokenError> {
        Ok(BASE64.encode(self.mac_for(purpose, body)?.finalize().into_bytes()))
    }

    /// Returns whether `code` is the authentication code of `body`, compared in constant time.
    pub(crate) fn is_authentic(&self, purpose: &str, body: &str, code: &str) -> Result<bool, TokenError> {
        let mac = self.mac_for(purpose, body)?;
        Ok(BASE64.decode(code).is_ok_and(|code| mac.verify_slice(&code).is_ok()))
    }

    fn mac(&self, body: &str) -> Result<Hmac<Sha256>, TokenError> {
        self.mac_for("onceward respondent v1 ", body)
    }

    fn mac_for(&self, purpose: &str, body: &str) -> Result<Hmac<Sha256>, TokenError> {
        let mut mac = self.key.clone().ok_or(TokenError::NoSecret)?;
        mac.update(purpose.as_bytes());
        mac.update(body.as_bytes());
        Ok(mac)
    }
}

impl TokenClaim {
    /// Returns the claim's tenant.
    pub fn tenant(&self) -> Result<TenantId, TokenError> {
        let (Self::Collector { tenant, .. } | Self::Invite { tenant, .. } | Self::Session(SessionClaim { tenant, .. })) =
            self;
        TenantId::new(tenant).map_err(|_| TokenError::Invalid)
    }

    /// Returns the claim if it is for this session; fails otherwise.
    pub fn for_session(self, session_id: Uuid) -> Result<Self, TokenError> {
        match self {
            Self::Session(SessionClaim { session, .. }) if session == session_id => Ok(self),
            _ => Err(TokenError::Invalid),
        }
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").field("key", &self.key.as_ref().map(|_| "set")).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(secret: &str) -> TokenSigner {
        TokenSigner::new(&SecretSetting(secret.into()))
    }

    fn session(expires_at: i64) -> TokenClaim {
        let (tenant, id) = ("acme".to_owned(), Uuid::now_v7());
        TokenClaim::Session(SessionClaim { tenant, survey: id, collector: id, session: id, expires_at })
    }

    #[test]
    fn a_signed_token_is_valid_until_it_expires() {
        let signer = signer("a secret that is long enough for it");
        let claim = session(1_000);
        let token = signer.sign(&claim).unwrap();
        assert_eq!(signer.verify(&token, Timestamp::from_second(999).unwrap()), Ok(claim));
        assert_eq!(signer.verify(&token, Timestamp::from_second(1_000).unwrap()), Err(TokenError::Expired));
    }

    #[test]
    fn a_changed_token_and_one_signed_with_another_secret_are_rejected() {
        let (signer_a, signer_b) =
            (signer("a secret that is long enough for it"), signer("another secret that is long enough"));
        let token = signer_a.sign(&session(i64::MAX)).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(signer_b.verify(&token, now), Err(TokenError::Invalid));
        for index in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            assert_ne!(
                signer_a.verify(std::str::from_utf8(&bytes).unwrap(), now),
                signer_a.verify(&token, now),
                "changed at {index}"
            );
        }
        for token in ["", ".", "a.b", &"x".repeat(5_000)] {
            assert_eq!(signer_a.verify(token, now), Err(TokenError::Invalid));
        }
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        assert_eq!(signer("").sign(&session(1)), Err(TokenError::NoSecret));
        assert_eq!(signer("too short").sign(&session(1)), Err(TokenError::NoSecret));
    }
}

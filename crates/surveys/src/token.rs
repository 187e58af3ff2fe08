//! What respondents show instead of a tenant's token: signed by us, good for one collector, invite or session.
//!
//! `<claim as JSON, base64url>.<HMAC-SHA256, base64url>`. It opens nothing but what it names, in the tenant that it names.

use crate::settings::Secret;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use onceward::TenantId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use uuid::Uuid;

const SECRET_BYTES: usize = 32;
/// Longer than any that we sign.
const TOKEN_BYTES: usize = 1024;

/// What a token lets its bearer do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Claim {
    /// Begin a session, by a link that many have.
    Collector {
        /// Whose.
        tenant: String,
        /// Which.
        collector: Uuid,
    },
    /// Begin one session.
    Invite {
        /// Whose.
        tenant: String,
        /// Of which collector.
        collector: Uuid,
        /// Which.
        invite: Uuid,
    },
    /// Go on with a session.
    Session(SessionClaim),
}

/// A session that its bearer may go on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaim {
    /// Whose.
    pub tenant: String,
    /// Of which survey.
    pub survey: Uuid,
    /// By which collector.
    pub collector: Uuid,
    /// Which.
    pub session: Uuid,
    /// Until when, in seconds since 1970.
    pub until: i64,
}

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// We did not sign it.
    #[error("the respondent's token is not valid")]
    Invalid,
    /// Its time is over.
    #[error("the respondent's token has expired: begin again from the link")]
    Expired,
    /// There is nothing to sign with.
    #[error("surveys.token_secret is not set and there is no auth.secret: set one of them, at least 32 bytes long")]
    NoSecret,
}

/// Signs and reads tokens.
#[derive(Clone)]
pub struct Signer {
    key: Option<Hmac<Sha256>>,
}

impl Signer {
    /// Signs with this secret, if it is long enough.
    pub fn new(secret: &Secret) -> Self {
        let long = secret.0.len() >= SECRET_BYTES;
        let key = long.then(|| Hmac::new_from_slice(secret.0.as_bytes()).expect("HMAC takes keys of any length"));
        Self { key }
    }

    /// The claim as a token.
    pub fn sign(&self, claim: &Claim) -> Result<String, TokenError> {
        let text = serde_json::to_vec(claim).map_err(|_| TokenError::Invalid)?;
        let body = BASE64.encode(text);
        let signature = self.mac(&body)?.finalize().into_bytes();
        Ok(format!("{body}.{}", BASE64.encode(signature)))
    }

    /// What a token claims, if we signed it and its time is not over.
    pub fn read(&self, token: &str, now: Timestamp) -> Result<Claim, TokenError> {
        let (body, signature) = token.split_once('.').ok_or(TokenError::Invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| TokenError::Invalid)?;
        if token.len() > TOKEN_BYTES {
            return Err(TokenError::Invalid);
        }
        self.mac(body)?.verify_slice(&signature).map_err(|_| TokenError::Invalid)?;
        let text = BASE64.decode(body).map_err(|_| TokenError::Invalid)?;
        let claim = serde_json::from_slice(&text).map_err(|_| TokenError::Invalid)?;
        match &claim {
            Claim::Session(session) if session.until <= now.as_second() => Err(TokenError::Expired),
            _ => Ok(claim),
        }
    }

    fn mac(&self, body: &str) -> Result<Hmac<Sha256>, TokenError> {
        let mut mac = self.key.clone().ok_or(TokenError::NoSecret)?;
        mac.update(b"onceward respondent v1 ");
        mac.update(body.as_bytes());
        Ok(mac)
    }
}

impl Claim {
    /// Whose it is.
    pub fn tenant(&self) -> Result<TenantId, TokenError> {
        let (Self::Collector { tenant, .. } | Self::Invite { tenant, .. } | Self::Session(SessionClaim { tenant, .. })) =
            self;
        TenantId::new(tenant).map_err(|_| TokenError::Invalid)
    }

    /// The same, if it is for this session.
    pub fn for_session(self, session_id: Uuid) -> Result<Self, TokenError> {
        match self {
            Self::Session(SessionClaim { session, .. }) if session == session_id => Ok(self),
            _ => Err(TokenError::Invalid),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("key", &self.key.as_ref().map(|_| "set")).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(secret: &str) -> Signer {
        Signer::new(&Secret(secret.into()))
    }

    fn session(until: i64) -> Claim {
        let (tenant, id) = ("acme".to_owned(), Uuid::now_v7());
        Claim::Session(SessionClaim { tenant, survey: id, collector: id, session: id, until })
    }

    #[test]
    fn what_was_signed_is_read_again_until_its_time_is_over() {
        let signer = signer("a secret that is long enough for it");
        let claim = session(1_000);
        let token = signer.sign(&claim).unwrap();
        assert_eq!(signer.read(&token, Timestamp::from_second(999).unwrap()), Ok(claim));
        assert_eq!(signer.read(&token, Timestamp::from_second(1_000).unwrap()), Err(TokenError::Expired));
    }

    #[test]
    fn a_changed_token_and_one_of_another_secret_are_refused() {
        let (ours, theirs) =
            (signer("a secret that is long enough for it"), signer("another secret that is long enough"));
        let token = ours.sign(&session(i64::MAX)).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(theirs.read(&token, now), Err(TokenError::Invalid));
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_ne!(ours.read(std::str::from_utf8(&bytes).unwrap(), now), ours.read(&token, now), "at {at}");
        }
        for token in ["", ".", "a.b", &"x".repeat(5_000)] {
            assert_eq!(ours.read(token, now), Err(TokenError::Invalid));
        }
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        assert_eq!(signer("").sign(&session(1)), Err(TokenError::NoSecret));
        assert_eq!(signer("too short").sign(&session(1)), Err(TokenError::NoSecret));
    }
}

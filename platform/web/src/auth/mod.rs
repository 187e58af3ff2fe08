//! Bearer tokens: from a JWT to a tenant, a user and roles.
//!
//! The algorithm follows from the configured mode, never from the token: HS256 with a shared secret, or RS256 with keys
//! from a JWKS. A token that names any other algorithm is rejected before a key is looked up.

mod claims;
mod jwks;

pub use claims::{Claims, Identity, issue_hs256};
pub use jwks::JwksSource;

use crate::{Problem, problem::codes};
use axum::http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, errors::ErrorKind};
use jwks::Jwks;
use serde_json::{Map, Value};

/// A longer token is rejected without being parsed.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// RFC 7518: an HS256 key is at least as long as the hash.
const MIN_SECRET_BYTES: usize = 32;

/// The source of the keys, which determines the algorithm.
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// HS256 with a secret that issuer and server share.
    Hs256 {
        /// At least 32 bytes.
        secret: Vec<u8>,
    },
    /// RS256 with the public keys of an identity provider.
    Jwks {
        /// The source of the key set.
        source: JwksSource,
        /// The refresh interval.
        refresh_s: u64,
    },
}

/// How tokens are checked.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Keys and algorithm.
    pub mode: AuthMode,
    /// If set, `iss` must be present and equal to it.
    pub issuer: Option<String>,
    /// If set, `aud` must be present and contain it.
    pub audience: Option<String>,
    /// The tolerated clock difference from the issuer. 30 s.
    pub leeway_s: u64,
    /// The claim that names the tenant. `tenant`.
    pub tenant_claim: String,
}

impl AuthConfig {
    /// Uses HS256 with `secret` and the documented defaults.
    pub fn hs256(secret: impl Into<Vec<u8>>) -> Self {
        Self::new(AuthMode::Hs256 { secret: secret.into() })
    }

    /// Uses RS256 with the keys of `source`, refreshed every five minutes.
    pub fn jwks(source: JwksSource) -> Self {
        Self::new(AuthMode::Jwks { source, refresh_s: 300 })
    }

    fn new(mode: AuthMode) -> Self {
        Self { mode, issuer: None, audience: None, leeway_s: 30, tenant_claim: "tenant".to_owned() }
    }
}

/// Settings with which no token can be checked.
#[derive(Debug, thiserror::Error)]
pub enum AuthConfigError {
    /// The secret is short enough to be guessed.
    #[error("the HS256 secret has {bytes} bytes; use at least {MIN_SECRET_BYTES} random ones")]
    SecretTooShort {
        /// Its length.
        bytes: usize,
    },
    /// The key set cannot be read or contains no key for RS256.
    #[error("the JWKS cannot be used: {0}")]
    Jwks(String),
}

enum Keys {
    Secret(DecodingKey),
    Jwks(Jwks),
}

/// Checks tokens. One per process.
pub struct Authenticator {
    keys: Keys,
    validation: Validation,
    tenant_claim: String,
}

impl Authenticator {
    /// Prepares to check tokens. A key set in a file is read now; one behind a URL is read at the first request, so
    /// that this process can start before its identity provider.
    pub fn new(config: AuthConfig) -> Result<Self, AuthConfigError> {
        let (keys, algorithm) = match config.mode {
            AuthMode::Hs256 { secret } if secret.len() < MIN_SECRET_BYTES => {
                return Err(AuthConfigError::SecretTooShort { bytes: secret.len() });
            }
            AuthMode::Hs256 { secret } => (Keys::Secret(DecodingKey::from_secret(&secret)), Algorithm::HS256),
            AuthMode::Jwks { source, refresh_s } => {
                (Keys::Jwks(Jwks::new(source, refresh_s).map_err(AuthConfigError::Jwks)?), Algorithm::RS256)
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.leeway = config.leeway_s;
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        match &config.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            None => validation.validate_aud = false,
        }
        if let Some(issuer) = &config.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Ok(Self { keys, validation, tenant_claim: config.tenant_claim })
    }

    /// Returns the identity in the `Authorization` header, or a 401 whose detail explains the rejection.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let token = bearer_token(headers)?;
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| invalid_token("the token is malformed or names an unknown algorithm"))?;
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(invalid_token("the token's algorithm is not the one that this server accepts"));
        }
        if header.crit.is_some() {
            return Err(invalid_token("the token has critical headers that this server does not know"));
        }
        let key = self.key(&header).await?;
        let token = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &self.validation)
            .map_err(|error| invalid_token(&describe(error.kind())))?;
        Identity::from_claims(&token.claims, &self.tenant_claim).map_err(|reason| invalid_token(&reason))
    }

    async fn key(&self, header: &Header) -> Result<DecodingKey, Problem> {
        match &self.keys {
            Keys::Secret(key) => Ok(key.clone()),
            Keys::Jwks(jwks) => jwks.key(header.kid.as_deref()).await,
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<&str, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(Problem::new(codes::UNAUTHORIZED)
            .detail("Send a token as `Authorization: Bearer <token>`.")
            .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
    };
    let token = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or_else(|| invalid_token("the Authorization header is not `Bearer <token>`"))?;
    if token.len() > MAX_TOKEN_BYTES {
        return Err(invalid_token("the token is too long"));
    }
    Ok(token)
}

/// Returns a 401 for a token that was sent but rejected. `reason` is our own text, so it is safe in a quoted header
/// value.
pub(crate) fn invalid_token(reason: &str) -> Problem {
    let challenge =
        format!("Bearer error=\"invalid_token\", error_description=\"{}\"", reason.replace(['"', '\\'], "'"));
    let challenge = HeaderValue::from_str(&challenge)
        .unwrap_or_else(|_| HeaderValue::from_static("Bearer error=\"invalid_token\""));
    Problem::new(codes::UNAUTHORIZED)
        .detail(format!("The token was rejected: {reason}."))
        .header(header::WWW_AUTHENTICATE, challenge)
}

fn describe(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidIssuer => "it comes from the wrong issuer".to_owned(),
        ErrorKind::InvalidAudience => "it is meant for another audience".to_owned(),
        ErrorKind::InvalidSignature => "its signature does not match this server's key".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("the claim {claim} is missing"),
        ErrorKind::InvalidClaimFormat(claim) => format!("the claim {claim} has the wrong form"),
        ErrorKind::InvalidAlgorithm => "its algorithm is not the one that this server accepts".to_owned(),
        _ => "it is malformed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_could_be_guessed_is_rejected_at_start() {
        let error = Authenticator::new(AuthConfig::hs256("hunter2")).err().unwrap();
        assert!(error.to_string().contains("at least 32"));
    }

    #[test]
    fn the_scheme_is_case_insensitive_and_any_other_scheme_is_rejected() {
        let mut headers = HeaderMap::new();
        assert!(bearer_token(&headers).is_err());
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("bEaReR abc"));
        assert_eq!(bearer_token(&headers).unwrap(), "abc");
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic abc"));
        assert!(bearer_token(&headers).is_err());
    }
}

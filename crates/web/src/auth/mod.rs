//! Bearer tokens: from a JWT to a tenant, a user and roles.
//!
//! The algorithm follows from the configured mode, never from the token: HS256 with a shared secret, or RS256 with keys
//! from a JWKS. A token that names any other algorithm is refused before a key is looked at.

mod claims;
mod jwks;

pub use claims::{Claims, Identity, issue_hs256};
pub use jwks::JwksSource;

use crate::{Problem, problem::codes};
use axum::http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, errors::ErrorKind};
use jwks::Jwks;
use serde_json::{Map, Value};

/// A longer token is not read at all.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// RFC 7518: an HS256 key is at least as long as the hash.
const MIN_SECRET_BYTES: usize = 32;

/// Where the keys come from; fixes the algorithm.
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// HS256 with a secret that issuer and server share.
    Hs256 {
        /// At least 32 bytes.
        secret: Vec<u8>,
    },
    /// RS256 with the public keys of an identity provider.
    Jwks {
        /// Where the key set is.
        source: JwksSource,
        /// How often it is read again.
        refresh_s: u64,
    },
}

/// How tokens are checked.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Keys and algorithm.
    pub mode: AuthMode,
    /// If set, `iss` must be there and equal it.
    pub issuer: Option<String>,
    /// If set, `aud` must be there and contain it.
    pub audience: Option<String>,
    /// How far the issuer's clock may be off. 30 s.
    pub leeway_s: u64,
    /// The claim that names the tenant. `tenant`.
    pub tenant_claim: String,
}

impl AuthConfig {
    /// HS256 with `secret` and the documented defaults.
    pub fn hs256(secret: impl Into<Vec<u8>>) -> Self {
        Self::new(AuthMode::Hs256 { secret: secret.into() })
    }

    /// RS256 with the keys of `source`, read again every five minutes.
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
    /// The secret could be guessed.
    #[error("the HS256 secret has {bytes} bytes; use at least {MIN_SECRET_BYTES} random ones")]
    SecretTooShort {
        /// Its length.
        bytes: usize,
    },
    /// The key set cannot be read or holds nothing to check RS256 tokens with.
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
    /// Prepares to check tokens. A key set in a file is read now; one behind a URL at the first request, so that this
    /// process can start before its identity provider.
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

    /// The identity behind the `Authorization` header, or a 401 that says in words what is wrong.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let token = bearer_token(headers)?;
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| refused("the token is malformed or names an unknown algorithm"))?;
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(refused("the token's algorithm is not the one this server accepts"));
        }
        if header.crit.is_some() {
            return Err(refused("the token has critical headers this server does not know"));
        }
        let key = self.key(&header).await?;
        let token = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &self.validation)
            .map_err(|error| refused(&in_words(error.kind())))?;
        Identity::from_claims(&token.claims, &self.tenant_claim).map_err(|why| refused(&why))
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
        .ok_or_else(|| refused("the Authorization header is not `Bearer <token>`"))?;
    if token.len() > MAX_TOKEN_BYTES {
        return Err(refused("the token is too long"));
    }
    Ok(token)
}

/// A 401 for a token that was there. `why` is our own wording, so it is safe inside a quoted header value.
pub(crate) fn refused(why: &str) -> Problem {
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{}\"", why.replace(['"', '\\'], "'"));
    let challenge = HeaderValue::from_str(&challenge)
        .unwrap_or_else(|_| HeaderValue::from_static("Bearer error=\"invalid_token\""));
    Problem::new(codes::UNAUTHORIZED)
        .detail(format!("The token was refused: {why}."))
        .header(header::WWW_AUTHENTICATE, challenge)
}

fn in_words(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidIssuer => "it comes from the wrong issuer".to_owned(),
        ErrorKind::InvalidAudience => "it is meant for another audience".to_owned(),
        ErrorKind::InvalidSignature => "its signature does not match this server's key".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("the claim {claim} is missing"),
        ErrorKind::InvalidClaimFormat(claim) => format!("the claim {claim} has the wrong form"),
        ErrorKind::InvalidAlgorithm => "its algorithm is not the one this server accepts".to_owned(),
        _ => "it is malformed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_could_be_guessed_is_refused_at_start() {
        let error = Authenticator::new(AuthConfig::hs256("hunter2")).err().unwrap();
        assert!(error.to_string().contains("at least 32"));
    }

    #[test]
    fn the_scheme_is_read_in_any_case_and_anything_else_is_refused() {
        let mut headers = HeaderMap::new();
        assert!(bearer_token(&headers).is_err());
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("bEaReR abc"));
        assert_eq!(bearer_token(&headers).unwrap(), "abc");
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic abc"));
        assert!(bearer_token(&headers).is_err());
    }
}

//! The identity provider's public keys: read from a file, a URL or the settings, read again when they get old or when a
//! token names a key we have not seen. The last good set is kept through an outage of the provider.

use super::refused;
use crate::{Problem, problem::codes};
use jsonwebtoken::{
    DecodingKey,
    jwk::{AlgorithmParameters, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use serde_json::Value;
use std::{
    path::PathBuf,
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// A made-up key id cannot make us ask the provider more often than this.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_SET_BYTES: usize = 1024 * 1024;

/// Where a key set is.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A JSON file; must be readable at start.
    File(PathBuf),
    /// Fetched over HTTP; may be away at start.
    Url(String),
    /// Part of the settings.
    Inline(Value),
}

type KeySet = Vec<(Option<String>, DecodingKey)>;

pub(super) struct Jwks {
    source: JwksSource,
    refresh: Duration,
    keys: RwLock<Arc<KeySet>>,
    /// When a refresh was last begun. Held while one runs, so there is one at a time.
    last_attempt: Mutex<Option<Instant>>,
    client: Option<reqwest::Client>,
}

impl Jwks {
    pub(super) fn new(source: JwksSource, refresh_s: u64) -> Result<Self, String> {
        let (keys, client, last_attempt) = match &source {
            JwksSource::Inline(set) => (keys_of(set.clone())?, None, Some(Instant::now())),
            JwksSource::File(path) => {
                let text =
                    std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                (parse(&text)?, None, Some(Instant::now()))
            }
            JwksSource::Url(_) => (Vec::new(), Some(http_client()?), None),
        };
        Ok(Self {
            source,
            refresh: Duration::from_secs(refresh_s.max(1)),
            keys: RwLock::new(Arc::new(keys)),
            last_attempt: Mutex::new(last_attempt),
            client,
        })
    }

    /// The key a token names, or the only one there is if it names none.
    pub(super) async fn key(&self, kid: Option<&str>) -> Result<DecodingKey, Problem> {
        self.refresh_if_old().await;
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        self.refresh_for_unknown_key(kid).await;
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        if self.keys.read().expect("no panic while held").is_empty() {
            return Err(Problem::new(codes::KEYS_UNAVAILABLE)
                .detail("The identity provider's keys have not been loaded yet.")
                .retry_after_s(5));
        }
        Err(refused("it is signed with a key this server does not know"))
    }

    fn find(&self, kid: Option<&str>) -> Option<DecodingKey> {
        let keys = self.keys.read().expect("no panic while held").clone();
        match kid {
            Some(kid) => keys.iter().find(|(id, _)| id.as_deref() == Some(kid)).map(|(_, key)| key.clone()),
            None => match keys.as_slice() {
                [(_, key)] => Some(key.clone()),
                _ => None,
            },
        }
    }

    /// One request pays for the refresh; those beside it go on with the keys there are.
    async fn refresh_if_old(&self) {
        let Ok(mut last) = self.last_attempt.try_lock() else {
            return;
        };
        if last.is_some_and(|at| at.elapsed() > self.refresh) {
            self.reload(&mut last).await;
        }
    }

    /// Waits for a refresh under way: it may bring the key.
    async fn refresh_for_unknown_key(&self, kid: Option<&str>) {
        let mut last = self.last_attempt.lock().await;
        let recently = last.is_some_and(|at| at.elapsed() < MIN_REFRESH_INTERVAL);
        if self.find(kid).is_none() && !recently {
            self.reload(&mut last).await;
        }
    }

    async fn reload(&self, last: &mut Option<Instant>) {
        *last = Some(Instant::now());
        match self.load().await {
            Ok(keys) => *self.keys.write().expect("no panic while held") = Arc::new(keys),
            Err(error) => {
                tracing::warn!(%error, "the JWKS could not be read again; the last good keys stay in use");
            }
        }
    }

    async fn load(&self) -> Result<KeySet, String> {
        match &self.source {
            JwksSource::Inline(set) => keys_of(set.clone()),
            JwksSource::File(path) => {
                let text = tokio::fs::read(path)
                    .await
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                parse(&text)
            }
            JwksSource::Url(url) => match &self.client {
                Some(client) => fetch(client, url).await,
                None => Err("there is no HTTP client".to_owned()),
            },
        }
    }
}

fn http_client() -> Result<reqwest::Client, String> {
    // The HTTP client takes its cryptography from the process. An error means that somebody chose one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(FETCH_TIMEOUT)
        .redirect(reqwest::redirect::Policy::limited(3))
        .build()
        .map_err(|error| error.to_string())
}

async fn fetch(client: &reqwest::Client, url: &str) -> Result<KeySet, String> {
    let mut response = client
        .get(url)
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .map_err(|error| error.without_url().to_string())?;
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.without_url().to_string())? {
        text.extend_from_slice(&chunk);
        if text.len() > MAX_SET_BYTES {
            return Err(format!("the key set has more than {MAX_SET_BYTES} bytes"));
        }
    }
    parse(&text)
}

fn parse(text: &[u8]) -> Result<KeySet, String> {
    let set = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    keys_of(set)
}

/// Keeps what can check an RS256 signature and passes over the rest: a set may hold keys for other uses.
fn keys_of(set: Value) -> Result<KeySet, String> {
    let set: JwkSet = serde_json::from_value(set).map_err(|error| format!("it is not a JWK set: {error}"))?;
    let keys: KeySet = set
        .keys
        .iter()
        .filter(|jwk| checks_rs256(jwk))
        .filter_map(|jwk| {
            let key = DecodingKey::from_jwk(jwk).ok()?;
            Some((jwk.common.key_id.clone(), key))
        })
        .collect();
    if keys.is_empty() {
        return Err("it holds no RSA key for signatures".to_owned());
    }
    Ok(keys)
}

fn checks_rs256(jwk: &Jwk) -> bool {
    let common = &jwk.common;
    matches!(jwk.algorithm, AlgorithmParameters::RSA(_))
        && matches!(common.key_algorithm, None | Some(KeyAlgorithm::RS256))
        && matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_without_a_usable_key_is_refused_at_start() {
        for set in [
            json!({"keys": []}),
            json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "1"}]}),
            json!({"keys": [{"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB", "kid": "1"}]}),
            json!({"no": "keys"}),
        ] {
            assert!(Jwks::new(JwksSource::Inline(set), 300).is_err());
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let source = JwksSource::File("no-such-file.json".into());
        let error = Jwks::new(source, 300).err().unwrap();
        assert!(error.contains("no-such-file.json"));
    }
}

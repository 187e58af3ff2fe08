//! The identity provider's public keys, read from a file, a URL or the settings. They are read again when they are
//! stale or when a token names an unknown key. The last good set is kept through an outage of the provider.

use super::invalid_token;
use crate::{Problem, problem::codes};
use jsonwebtoken::{
    DecodingKey,
    jwk::{AlgorithmParameters, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use onceward_envelope::headers::TRACEPARENT;
use onceward_messaging::spans::{client_span, context_of};
use parking_lot::RwLock;
use serde_json::Value;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;
use tracing::{Instrument, Span};

/// Minimum time between refreshes, so that made-up key ids cannot cause frequent requests to the provider.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_SET_BYTES: usize = 1024 * 1024;
/// The provider's name in exported spans.
const PROVIDER: &str = "identity-provider";

/// The source of a key set.
#[derive(Clone, Debug)]
pub enum JwksSource {
    /// A JSON file, which must be readable at start-up.
    File(PathBuf),
    /// A URL, which may be unreachable at start-up.
    Url(String),
    /// A key set in the settings.
    Inline(Value),
}

type KeySet = Vec<(Option<String>, DecodingKey)>;

pub(super) struct Jwks {
    source: JwksSource,
    refresh: Duration,
    keys: RwLock<Arc<KeySet>>,
    /// When the last refresh started. Locked during a refresh, so that only one runs at a time.
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

    /// Returns the key that a token names, or the only key if it names none.
    pub(super) async fn key(&self, kid: Option<&str>) -> Result<DecodingKey, Problem> {
        self.refresh_if_stale().await;
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        self.refresh_for_unknown_key(kid).await;
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        if self.keys.read().is_empty() {
            return Err(Problem::new(codes::KEYS_UNAVAILABLE)
                .detail("The identity provider's keys have not been loaded yet. Try again in 5 seconds.")
                .retry_after_s(5));
        }
        Err(invalid_token("it is signed with a key that this server does not know"))
    }

    fn find(&self, kid: Option<&str>) -> Option<DecodingKey> {
        let keys = self.keys.read().clone();
        match kid {
            Some(kid) => keys.iter().find(|(id, _)| id.as_deref() == Some(kid)).map(|(_, key)| key.clone()),
            None => match keys.as_slice() {
                [(_, key)] => Some(key.clone()),
                _ => None,
            },
        }
    }

    /// Refreshes stale keys. One request waits for the refresh; concurrent requests continue with the current keys.
    async fn refresh_if_stale(&self) {
        let Ok(mut last) = self.last_attempt.try_lock() else {
            return;
        };
        if last.is_some_and(|at| at.elapsed() > self.refresh) {
            self.reload(&mut last).await;
        }
    }

    /// Waits for a refresh in progress, because it may load the key, and starts one if the key is still unknown.
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
            Ok(keys) => *self.keys.write() = Arc::new(keys),
            Err(error) => {
                tracing::warn!(%error, "refreshing the JWKS failed; the last good keys stay in use");
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
                Some(client) => fetch(client, url).instrument(client_span(PROVIDER, "read keys")).await,
                None => Err("there is no HTTP client".to_owned()),
            },
        }
    }
}

fn http_client() -> Result<reqwest::Client, String> {
    // The HTTP client uses the process's crypto provider. An error means that one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(FETCH_TIMEOUT)
        .redirect(reqwest::redirect::Policy::limited(3))
        .build()
        .map_err(|error| error.to_string())
}

/// Reads the keys at `url`; the request carries the current span as its parent.
async fn fetch(client: &reqwest::Client, url: &str) -> Result<KeySet, String> {
    let mut request = client.get(url);
    if let Some(trace) = context_of(&Span::current()) {
        request = request.header(TRACEPARENT, trace.traceparent());
    }
    let mut response = request
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

/// Keeps the keys that can verify RS256 signatures and skips the rest: a set may contain keys for other uses.
fn keys_of(set: Value) -> Result<KeySet, String> {
    let set: JwkSet = serde_json::from_value(set).map_err(|error| format!("it is not a JWK set: {error}"))?;
    let keys: KeySet = set
        .keys
        .iter()
        .filter(|jwk| can_verify_rs256(jwk))
        .filter_map(|jwk| {
            let key = DecodingKey::from_jwk(jwk).ok()?;
            Some((jwk.common.key_id.clone(), key))
        })
        .collect();
    if keys.is_empty() {
        return Err("it contains no RSA key for signatures".to_owned());
    }
    Ok(keys)
}

fn can_verify_rs256(jwk: &Jwk) -> bool {
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
    fn a_set_without_a_usable_key_is_rejected_at_start() {
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

//! One request to one endpoint: guarded, bounded in time and size, without redirects, proxies or cookies.

use crate::{
    Settings,
    guard::{Guarded, Networks, Refused, System},
    retry,
    signature::{ID_HEADER, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER},
    trust,
};
use jiff::Timestamp;
use reqwest::{Response, Url, dns::Resolve, header, redirect::Policy};
use std::{
    error::Error,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

const USER_AGENT: &str = concat!("onceward-webhooks/", env!("CARGO_PKG_VERSION"));
/// How much of an answer is read, and kept for the log.
pub const SNIPPET_BYTES: usize = 1024;
/// The answer's first line decides. What follows is for the log, and not worth waiting for.
const SNIPPET_TIMEOUT: Duration = Duration::from_secs(2);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 4;

/// Sends messages to endpoints.
pub struct Client {
    http: reqwest::Client,
    allowed: Networks,
    allow_http: bool,
    timeout: Duration,
}

/// A message, ready to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The same for every attempt.
    pub id: &'m str,
    /// The bytes that are signed and sent.
    pub body: &'m str,
    /// Those that are in force.
    pub secrets: &'m [Secret],
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `None`: there was no answer.
    pub status: Option<u16>,
    /// Why it is a failure; `None` if it is none.
    pub error: Option<String>,
    /// What the endpoint asks to wait.
    pub retry_after: Option<Duration>,
    /// The beginning of what it said.
    pub snippet: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Answer {
    /// There is none, and why.
    pub(crate) fn not_sent(error: String) -> Self {
        Self { status: None, error: Some(error), retry_after: None, snippet: None, took: Duration::ZERO }
    }

    /// 2xx, and nothing else.
    pub fn is_success(&self) -> bool {
        self.error.is_none()
    }

    /// The endpoint says that it wants nothing any more.
    pub fn is_gone(&self) -> bool {
        self.status == Some(410)
    }
}

impl Client {
    /// A client that looks names up as the system does.
    pub fn new(settings: &Settings) -> Result<Self, reqwest::Error> {
        Self::with_resolver(settings, Arc::new(System))
    }

    /// The same with another way to look names up. What it finds is checked all the same.
    pub fn with_resolver(settings: &Settings, inner: Arc<dyn Resolve>) -> Result<Self, reqwest::Error> {
        let allowed = settings.allowed_networks.clone();
        let http = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .timeout(settings.timeout())
            .connect_timeout(settings.timeout())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .tls_certs_merge(settings.extra_roots.certificates()?)
            .dns_resolver(Guarded { inner, allowed: allowed.clone() })
            .build()?;
        Ok(Self { http, allowed, allow_http: settings.allow_http, timeout: settings.timeout() })
    }

    /// Sends `message` once, signed for now.
    pub async fn send(&self, url: &str, message: &Message<'_>) -> Answer {
        let started = Instant::now();
        let sent = match self.check(url) {
            Ok(url) => self.post(url, message).await,
            Err(error) => Err(error),
        };
        let answer = match sent {
            Ok(response) => read(response).await,
            Err(error) => Answer::not_sent(error),
        };
        Answer { took: started.elapsed(), ..answer }
    }

    /// An address instead of a name is never looked up, so it is checked here.
    fn check(&self, url: &str) -> Result<Url, String> {
        let url = check_url(url, self.allow_http)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if let Ok(ip) = host.parse::<IpAddr>() {
            self.allowed.check(ip).map_err(|refused| refused.to_string())?;
        }
        Ok(url)
    }

    async fn post(&self, url: Url, message: &Message<'_>) -> Result<Response, String> {
        let at = Timestamp::now().as_second();
        let signatures: Vec<String> =
            message.secrets.iter().map(|secret| secret.sign(message.id, at, message.body.as_bytes())).collect();
        let request = self
            .http
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(ID_HEADER, message.id)
            .header(TIMESTAMP_HEADER, at)
            .header(SIGNATURE_HEADER, signatures.join(" "))
            .body(message.body.to_owned());
        request.send().await.map_err(|error| self.explain(error))
    }

    /// For the delivery log, without the address.
    fn explain(&self, error: reqwest::Error) -> String {
        if error.is_timeout() {
            return format!("no answer within {} ms", self.timeout.as_millis());
        }
        let error = error.without_url();
        let mut last: &dyn Error = &error;
        while let Some(source) = last.source() {
            last = source;
            if let Some(refused) = last.downcast_ref::<Refused>() {
                return refused.to_string();
            }
            if let Some(distrust) = trust::distrust(last) {
                return distrust;
            }
        }
        if error.is_connect() { format!("could not connect: {last}") } else { format!("the connection broke: {last}") }
    }
}

/// What an endpoint's address must look like. Where it leads to is looked at when something is sent.
pub(crate) fn check_url(text: &str, allow_http: bool) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => return Err("it must begin with https://".to_owned()),
        _ => return Err("it must be a URL for HTTP".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not hold a name or a password: receivers check the signature".to_owned());
    }
    if url.fragment().is_some() {
        return Err("it must not have a fragment (#…), which is never sent".to_owned());
    }
    Ok(url)
}

async fn read(mut response: Response) -> Answer {
    let status = response.status();
    let error = match status.as_u16() {
        200..=299 => None,
        300..=399 => Some(format!("it answered {status}; redirects are not followed: give the new address")),
        _ => Some(format!("it answered {status}")),
    };
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|value| retry::asked_for(value, Timestamp::now()));
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < SNIPPET_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk[..chunk.len().min(SNIPPET_BYTES - bytes.len())]),
                _ => break,
            }
        }
    };
    let _ = tokio::time::timeout(SNIPPET_TIMEOUT, reading).await;
    let snippet = (!bytes.is_empty()).then(|| snippet(&bytes));
    Answer { status: Some(status.as_u16()), error, retry_after, snippet, took: Duration::ZERO }
}

/// Text that can be stored and shown, whatever was sent.
fn snippet(bytes: &[u8]) -> String {
    let plain = |character: char| match character {
        '\n' | '\t' => character,
        control if control.is_control() => '\u{fffd}',
        other => other,
    };
    String::from_utf8_lossy(bytes).chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_without_credentials() {
        assert!(check_url("https://example.com/hooks?a=b", false).is_ok());
        assert!(check_url("http://example.com/", true).is_ok());
        for bad in [
            "http://example.com/",
            "ftp://example.com/",
            "https://user:pass@example.com/",
            "https://user@example.com/",
            "https://example.com/#there",
            "https://",
            "example.com",
            "file:///etc/passwd",
        ] {
            assert!(check_url(bad, false).is_err(), "{bad}");
        }
        assert!(check_url("gopher://example.com/", true).is_err());
    }

    #[test]
    fn a_snippet_is_text_without_control_characters() {
        assert_eq!(snippet(b"a\0b\x1b[31m\xff\nc"), "a\u{fffd}b\u{fffd}[31m\u{fffd}\nc");
    }
}

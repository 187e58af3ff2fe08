//! Sends one request to one endpoint: to an allowed address, bounded in time and size, without redirects, proxies or
//! cookies.

use crate::{
    Settings,
    guard::{GuardedResolver, Networks, RefusedAddress, SystemResolver},
    retry,
    signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookSecret},
    trust,
};
use jiff::Timestamp;
use onceward::envelope::{TraceContext, headers};
use reqwest::{Response, Url, dns::Resolve, header, redirect::Policy};
use std::{
    error::Error,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

const USER_AGENT: &str = concat!("onceward-webhooks/", env!("CARGO_PKG_VERSION"));
/// How much of a response body is read and stored in the delivery log.
pub const SNIPPET_BYTES: usize = 1024;
/// This is the first error that a user who tries webhooks locally sees, so it contains every instruction needed.
const PLAIN_HTTP: &str = "it must start with https://. To try webhooks without TLS, set webhooks.allow_http \
                          (ONCEWARD_WEBHOOKS_ALLOW_HTTP=true); an address on this machine or in a private network must also be in \
                          webhooks.allowed_networks (ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.1/32)";
/// The status decides the result. The body is only for the log and not worth a long wait.
const SNIPPET_TIMEOUT: Duration = Duration::from_secs(2);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_PER_HOST: usize = 4;

/// Sends messages to endpoints.
pub struct WebhookClient {
    http: reqwest::Client,
    allowed: Networks,
    allow_http: bool,
    timeout: Duration,
}

/// A message, ready to be signed.
#[derive(Clone, Copy, Debug)]
pub struct WebhookMessage<'m> {
    /// The id, which is the same for every attempt.
    pub id: &'m str,
    /// The bytes that are signed and sent.
    pub body: &'m str,
    /// The valid secrets. The message is signed with each of them.
    pub secrets: &'m [WebhookSecret],
    /// The trace context that this request continues.
    pub trace: Option<&'m TraceContext>,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptResult {
    /// Whether a request was sent; if not, the result says nothing about the endpoint.
    pub is_sent: bool,
    /// `None` if the endpoint did not respond.
    pub status: Option<u16>,
    /// Why the attempt failed; `None` on success.
    pub error: Option<String>,
    /// The delay that the endpoint requests with `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The beginning of the response body.
    pub snippet: Option<String>,
    /// How long the attempt took.
    pub duration: Duration,
}

impl AttemptResult {
    /// Creates the result of an attempt that got no response, with the reason.
    pub(crate) fn without_response(error: String) -> Self {
        Self {
            is_sent: true,
            status: None,
            error: Some(error),
            retry_after: None,
            snippet: None,
            duration: Duration::ZERO,
        }
    }

    /// Creates the result of an attempt that ended before a request was sent, with the reason.
    pub(crate) fn not_sent(error: String) -> Self {
        Self { is_sent: false, ..Self::without_response(error) }
    }

    /// Returns whether the endpoint responded with 2xx. No other status is a success.
    pub fn is_success(&self) -> bool {
        self.error.is_none()
    }

    /// Returns whether the endpoint responded with 410: it wants no more messages.
    pub fn is_gone(&self) -> bool {
        self.status == Some(410)
    }
}

impl WebhookClient {
    /// Creates a client that resolves names as the system does.
    pub fn new(settings: &Settings) -> Result<Self, reqwest::Error> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// Creates a client with another resolver. The addresses that it finds are checked as well.
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
            .dns_resolver(GuardedResolver { inner, allowed: allowed.clone() })
            .build()?;
        Ok(Self { http, allowed, allow_http: settings.allow_http, timeout: settings.timeout() })
    }

    /// Sends `message` once, signed with the current time.
    pub async fn send(&self, url: &str, message: &WebhookMessage<'_>) -> AttemptResult {
        let started = Instant::now();
        let result = match self.check_url(url) {
            Ok(url) => match self.post(url, message).await {
                Ok(response) => read_response(response).await,
                Err(error) => self.explain(error),
            },
            Err(error) => AttemptResult::not_sent(error),
        };
        AttemptResult { duration: started.elapsed(), ..result }
    }

    /// Checks the URL. An IP address in it never reaches the resolver, so it is checked here.
    fn check_url(&self, url: &str) -> Result<Url, String> {
        let url = check_url(url, self.allow_http)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if let Ok(ip) = host.parse::<IpAddr>() {
            self.allowed.check(ip).map_err(|refused| refused.to_string())?;
        }
        Ok(url)
    }

    async fn post(&self, url: Url, message: &WebhookMessage<'_>) -> Result<Response, reqwest::Error> {
        let at = Timestamp::now().as_second();
        let signatures: Vec<String> =
            message.secrets.iter().map(|secret| secret.sign(message.id, at, message.body.as_bytes())).collect();
        let mut request = self
            .http
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(ID_HEADER, message.id)
            .header(TIMESTAMP_HEADER, at)
            .header(SIGNATURE_HEADER, signatures.join(" "))
            .body(message.body.to_owned());
        if let Some(trace) = message.trace {
            request = request.header(headers::TRACEPARENT, trace.traceparent());
            if let Some(state) = trace.tracestate() {
                request = request.header(headers::TRACESTATE, state);
            }
        }
        request.send().await
    }

    /// Describes `error` for the delivery log, without the URL.
    fn explain(&self, error: reqwest::Error) -> AttemptResult {
        if error.is_timeout() {
            return AttemptResult::without_response(format!("no response within {} ms", self.timeout.as_millis()));
        }
        let error = error.without_url();
        let mut last: &dyn Error = &error;
        while let Some(source) = last.source() {
            last = source;
            if let Some(refused) = last.downcast_ref::<RefusedAddress>() {
                return AttemptResult::not_sent(refused.to_string());
            }
            if let Some(explanation) = trust::explain_certificate_error(last) {
                return AttemptResult::without_response(explanation);
            }
        }
        AttemptResult::without_response(if error.is_connect() {
            format!("could not connect: {last}")
        } else {
            format!("the connection was lost: {last}")
        })
    }
}

/// Checks the form of an endpoint's URL. The address it resolves to is checked when a message is sent.
pub(crate) fn check_url(text: &str, allow_http: bool) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => return Err(PLAIN_HTTP.to_owned()),
        _ => return Err("it must be an HTTP URL".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not contain a user name or a password: receivers verify the signature instead".to_owned());
    }
    if url.fragment().is_some() {
        return Err("it must not have a fragment (#…), which is never sent".to_owned());
    }
    Ok(url)
}

async fn read_response(mut response: Response) -> AttemptResult {
    let status = response.status();
    let error = match status.as_u16() {
        200..=299 => None,
        300..=399 => Some(format!(
            "it responded {status}; redirects are not followed: set the endpoint's URL to the new address"
        )),
        _ => Some(format!("it responded {status}")),
    };
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|value| retry::parse_retry_after(value, Timestamp::now()));
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
    let status = Some(status.as_u16());
    AttemptResult { is_sent: true, status, error, retry_after, snippet, duration: Duration::ZERO }
}

/// Converts the beginning of a response to text that is safe to store and show.
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
    fn an_endpoint_url_is_https_without_credentials() {
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

//! RabbitMQ's management API, which lists bindings. AMQP can only create and delete them.
//!
//! There is no harmless way to check over AMQP whether a queue is bound. A probe message would be delivered wherever a
//! binding exists, and the reply does not name the queues (`docs/decisions/0021`). Without this API, bindings are
//! therefore not compared, and `unchecked` reports that.

use lapin::uri::{AMQPScheme, AMQPUri};
use onceward_broker::{BrokerConfig, BrokerError, without_credentials};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use std::time::Duration;

/// The plugin's default ports, without and with TLS.
const PORT: u16 = 15672;
const TLS_PORT: u16 = 15671;
/// The timeout for an API at the default address, which may not exist.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A binding as the API lists it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct ListedBinding {
    /// The exchange.
    pub(crate) source: String,
    /// The queue, or another exchange.
    pub(crate) destination: String,
    /// `queue` or `exchange`.
    pub(crate) destination_type: String,
    /// The pattern.
    pub(crate) routing_key: String,
}

/// The API of one virtual host.
pub(crate) struct ManagementApi {
    http: Client,
    base: String,
    vhost: String,
    user: String,
    password: String,
    /// `bus.management_url` is not set, so the API may not exist.
    is_default: bool,
}

/// The API's answer.
pub(crate) enum BindingsResponse {
    /// The bindings of an exchange.
    Bindings(Vec<ListedBinding>),
    /// There is no API, or it denies access; the text says what to do.
    Unavailable(String),
}

impl ManagementApi {
    /// Uses the configured URL, or the default ports on the broker's host. Fails if a URL is invalid.
    pub(crate) fn new(config: &BrokerConfig) -> Result<Self, BrokerError> {
        let url = config.address.read()?;
        let invalid =
            || BrokerError::Misconfigured(format!("{} is not a valid RabbitMQ URL", without_credentials(&url)));
        let uri: AMQPUri = url.parse().map_err(|_| invalid())?;
        let is_default = config.management_url.is_empty();
        let (base, credentials) = match is_default {
            true => (default_url(&uri), None),
            false => split_credentials(&config.management_url)?,
        };
        let (user, password) =
            credentials.unwrap_or((uri.authority.userinfo.username, uri.authority.userinfo.password));
        let timeout = if is_default { DETECTION_TIMEOUT.min(config.publish_timeout) } else { config.publish_timeout };
        install_crypto_provider();
        let http = Client::builder().timeout(timeout).no_proxy().build();
        let http =
            http.map_err(|error| BrokerError::Misconfigured(format!("cannot create an HTTP client: {error}")))?;
        Ok(Self { http, base, vhost: uri.vhost, user, password, is_default })
    }

    /// The bindings whose source is `exchange`.
    pub(crate) async fn bindings_from(&self, exchange: &str) -> Result<BindingsResponse, BrokerError> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (vhost, exchange) = (encoded(&self.vhost), encoded(exchange));
        let url = format!("{}/api/exchanges/{vhost}/{exchange}/bindings/source", self.base);
        let response = self.http.get(url).basic_auth(&self.user, Some(&self.password)).send().await;
        let response = match response {
            Ok(response) => response,
            Err(error) => return self.unreachable(&error),
        };
        match response.status() {
            StatusCode::OK => {
                let listed = response.json().await.map_err(|error| self.unavailable(&error))?;
                Ok(BindingsResponse::Bindings(listed))
            }
            // A missing exchange has no bindings; `check` reports that it is missing.
            StatusCode::NOT_FOUND if !self.is_default => Ok(BindingsResponse::Bindings(Vec::new())),
            // The default port may belong to another broker.
            StatusCode::NOT_FOUND => Ok(BindingsResponse::Unavailable(format!(
                "the management API at {} does not know the exchanges: set bus.management_url",
                self.base
            ))),
            status => Ok(BindingsResponse::Unavailable(format!(
                "the management API at {} returned {status}: give the user the tag \"monitoring\", or set bus.management_url",
                self.base
            ))),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Result<BindingsResponse, BrokerError> {
        if !self.is_default {
            return Err(self.unavailable(error));
        }
        Ok(BindingsResponse::Unavailable(format!(
            "there is no management API at {}: enable the plugin rabbitmq_management, or set bus.management_url",
            self.base
        )))
    }

    fn unavailable(&self, error: &reqwest::Error) -> BrokerError {
        // The source leaves out the URL, which is long and adds nothing.
        let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        BrokerError::Unavailable(format!("the management API at {} (bus.management_url): {why}", self.base))
    }
}

/// The default address of the API. It uses TLS if the connection to the broker does, so the password stays encrypted.
fn default_url(uri: &AMQPUri) -> String {
    let host = &uri.authority.host;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    match uri.scheme {
        AMQPScheme::AMQP => format!("http://{host}:{PORT}"),
        AMQPScheme::AMQPS => format!("https://{host}:{TLS_PORT}"),
    }
}

type Credentials = (String, String);

/// Splits a URL into the URL without credentials, and the credentials.
fn split_credentials(url: &str) -> Result<(String, Option<Credentials>), BrokerError> {
    let invalid = || {
        let example = "http://user:password@host:15672";
        BrokerError::Misconfigured(format!("bus.management_url is not valid: use a URL such as {example}"))
    };
    let mut parsed = reqwest::Url::parse(url).map_err(|_| invalid())?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(invalid());
    }
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = parsed.password().map(decoded).unwrap_or_default();
    let credentials = (!parsed.username().is_empty()).then(|| (decoded(parsed.username()), password));
    parsed.set_username("").and_then(|()| parsed.set_password(None)).map_err(|()| invalid())?;
    Ok((parsed.as_str().trim_end_matches('/').to_owned(), credentials))
}

/// Installs the TLS provider that the server program installs, for tests and tools that did not.
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread installed one meanwhile, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_url_uses_tls_if_the_broker_does() {
        let default = |url: &str| default_url(&url.parse().unwrap());
        assert_eq!(default("amqp://u:p@rabbit:5673/v"), "http://rabbit:15672");
        assert_eq!(default("amqps://u:p@rabbit/v"), "https://rabbit:15671");
    }

    #[test]
    fn credentials_are_removed_from_the_url() {
        let (base, credentials) = split_credentials("https://ops:p%40ss@rabbit.example:15671/").unwrap();
        assert_eq!(base, "https://rabbit.example:15671");
        assert_eq!(credentials, Some(("ops".to_owned(), "p@ss".to_owned())));
        assert_eq!(split_credentials("http://rabbit:15672").unwrap(), ("http://rabbit:15672".to_owned(), None));
        assert!(split_credentials("rabbit:15672").is_err());
    }
}

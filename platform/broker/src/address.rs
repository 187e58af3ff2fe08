//! The address and credentials of a broker. They are read again for every connection.

use crate::BrokerError;
use std::{fmt, path::PathBuf, time::Duration};

/// A broker's URL, or the file that contains it.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// The URL itself.
    Url(String),
    /// A file that contains the URL, such as a mounted secret that is rotated.
    File(PathBuf),
}

impl Address {
    /// Returns the current URL. Fails if the file cannot be read.
    pub fn read(&self) -> Result<String, BrokerError> {
        match self {
            Self::Url(url) => Ok(url.clone()),
            Self::File(path) => std::fs::read_to_string(path)
                .map(|text| text.trim().to_owned())
                .map_err(|error| BrokerError::Misconfigured(format!("cannot read {}: {error}", path.display()))),
        }
    }
}

impl fmt::Debug for Address {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{}", without_credentials(url)),
            Self::File(path) => write!(f, "the URL in {}", path.display()),
        }
    }
}

/// Returns the URL without user and password.
pub fn without_credentials(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            // A malformed password may contain / or ?, and then its end cannot be determined.
            if path.contains('@') {
                return format!("{scheme}://(hidden)");
            }
            let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
            let path = path.split('?').next().unwrap_or_default();
            format!("{scheme}://{hosts}{path}")
        }
        None => "(not a URL)".to_owned(),
    }
}

/// The supported buses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusKind {
    /// PostgreSQL itself: the commit publishes.
    Postgres,
    /// RabbitMQ.
    RabbitMq,
    /// Kafka.
    Kafka,
    /// Redis.
    Redis,
}

impl BusKind {
    /// Returns the bus that a URL names. An empty URL means PostgreSQL.
    pub fn of_url(url: &str) -> Option<Self> {
        match url.split("://").next().unwrap_or_default() {
            "" | "postgres" | "postgresql" => Some(Self::Postgres),
            "amqp" | "amqps" => Some(Self::RabbitMq),
            "kafka" | "kafka+ssl" => Some(Self::Kafka),
            "redis" | "rediss" => Some(Self::Redis),
            _ => None,
        }
    }

    /// Returns the name that is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::RabbitMq => "rabbitmq",
            Self::Kafka => "kafka",
            Self::Redis => "redis",
        }
    }
}

/// The connection settings of a broker; `config/default.toml` documents each.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// The address.
    pub address: Address,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a broker may be silent before the connection counts as lost.
    pub heartbeat: Duration,
    /// How long the confirmations of one batch of parcels may take.
    pub publish_timeout: Duration,
    /// The URL of the broker's management API, if it has one; empty for its default location.
    pub management_url: String,
    /// How long the inbox remembers landed messages; [`crate::Broker::advise`] compares the broker's retention times
    /// with it.
    pub inbox_retention: Duration,
}

impl BrokerConfig {
    /// Returns the documented defaults.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            connect_timeout: Duration::from_secs(5),
            heartbeat: Duration::from_secs(10),
            publish_timeout: Duration::from_secs(10),
            management_url: String::new(),
            inbox_retention: Duration::from_secs(14 * 24 * 60 * 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_omitted_from_debug_output() {
        let shown = |url: &str| format!("{:?}", Address::Url(url.to_owned()));
        assert_eq!(shown("amqp://user:se@cret@host:5672/%2f?x=y"), "amqp://host:5672/%2f");
        assert_eq!(shown("kafka://a:1,b:2"), "kafka://a:1,b:2");
        assert_eq!(shown("secret"), "(not a URL)");
        assert_eq!(shown("amqp://user:se/cret@host"), "amqp://(hidden)");
        assert_eq!(shown("amqp://user:se?cret@host"), "amqp://(hidden)");
    }

    #[test]
    fn the_file_is_read_again_for_each_connection() {
        let path = std::env::temp_dir().join(format!("onceward-address-{}", std::process::id()));
        let address = Address::File(path.clone());
        for url in ["redis://old", "redis://new"] {
            std::fs::write(&path, format!("{url}\n")).unwrap();
            assert_eq!(address.read().unwrap(), url);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(address.read().is_err());
    }
}

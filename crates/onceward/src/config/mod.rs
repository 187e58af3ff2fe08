//! Settings: the commented default file, a file that differs from it, the environment; in this order.

mod layers;
mod section;

pub use section::Section;

use onceward_db::DbConfig;
use onceward_messaging::relay::RelayConfig;
use onceward_transport::{Address, BrokerConfig, BusKind};
use onceward_transport_postgres::{PostgresBusConfig, retention::Retention};
use onceward_web::{AuthConfig, JwksSource, WebConfig};
use serde::Deserialize;
use std::{path::Path, time::Duration};

/// The documented defaults.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// All settings. What each means is written in `config/default.toml`, which is the default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub database: Database,
    pub http: Http,
    pub auth: Auth,
    pub bus: Bus,
    pub workers: Workers,
    pub retention: Keep,
    pub shutdown: Shutdown,
    pub telemetry: Telemetry,
    #[serde(skip)]
    services: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Database {
    pub url: String,
    pub pool_size: usize,
    pub acquire_timeout_ms: u64,
    pub connect_timeout_ms: u64,
    pub statement_timeout_ms: u64,
    pub idle_in_transaction_timeout_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Http {
    pub listen: String,
    pub metrics_listen: String,
    pub max_body_bytes: usize,
    pub request_timeout_ms: u64,
    pub max_concurrent_requests: usize,
    pub max_connections: usize,
    pub idempotency_hours: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Auth {
    pub mode: AuthKind,
    pub secret: String,
    pub jwks_file: String,
    pub jwks_url: String,
    pub issuer: String,
    pub audience: String,
    pub tenant_claim: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum AuthKind {
    Hs256,
    Jwks,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Bus {
    pub url: String,
    pub url_file: String,
    pub namespace: String,
    pub poll_ms: u64,
    pub relay_batch: usize,
    pub relay_tasks: usize,
    pub publish_attempts: u32,
    pub prefetch: usize,
    pub connect_timeout_ms: u64,
    pub heartbeat_ms: u64,
    pub publish_timeout_ms: u64,
    pub notify_interval_ms: u64,
    pub lanes_per_turn: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Workers {
    pub slots: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Keep {
    pub partition_hours: u32,
    pub keep_days: u32,
    pub inbox_days: u32,
    pub letter_days: u32,
    pub sweep_every_s: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Shutdown {
    pub grace_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Telemetry {
    pub log: String,
    pub log_format: LogFormat,
    pub otlp_endpoint: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogFormat {
    Json,
    Text,
}

/// Everything that is wrong with the settings, at once.
#[derive(Debug, thiserror::Error)]
#[error("the settings are not usable:\n{}", .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<String>);

impl Config {
    /// Reads the settings. `file` holds what differs from the defaults; `sections` are those of services.
    pub fn load(file: Option<&Path>, sections: &[Section]) -> Result<Self, ConfigError> {
        Self::load_with(file, sections, |name| std::env::var(name).ok())
    }

    /// The same with another environment, for tests.
    pub fn load_with(
        file: Option<&Path>,
        sections: &[Section],
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let config = layers::merge(file, sections, env)?;
        let problems = config.problems();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError(problems)) }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |ok: bool, problem: &str| {
            if !ok {
                problems.push(problem.to_owned());
            }
        };
        check(self.database.pool_size >= 2, "database.pool_size must be at least 2");
        check(self.bus.poll_ms >= 10, "bus.poll_ms must be at least 10");
        check(self.bus.lanes_per_turn >= 1, "bus.lanes_per_turn must be at least 1");
        check(self.retention.partition_hours >= 1, "retention.partition_hours must be at least 1");
        check(self.retention.sweep_every_s >= 1, "retention.sweep_every_s must be at least 1");
        check(
            self.http.listen.parse::<std::net::SocketAddr>().is_ok(),
            "http.listen must be an address with a port, like 127.0.0.1:8080",
        );
        check(
            self.http.metrics_listen.is_empty() || self.http.metrics_listen.parse::<std::net::SocketAddr>().is_ok(),
            "http.metrics_listen must be empty or an address with a port, like 127.0.0.1:9090",
        );
        check(self.bus.relay_batch >= 1, "bus.relay_batch (OUTBOX_DISPATCH_BATCH) must be at least 1");
        check(self.bus.relay_tasks >= 1, "bus.relay_tasks must be at least 1");
        check(self.bus.publish_attempts >= 1, "bus.publish_attempts must be at least 1");
        check((1..=65_535).contains(&self.bus.prefetch), "bus.prefetch (RABBIT_PREFETCH) must be 1 to 65535");
        check(self.bus.heartbeat_ms >= 1_000, "bus.heartbeat_ms must be at least 1000");
        check(
            self.bus.publish_timeout_ms * 2 < self.database.idle_in_transaction_timeout_ms,
            "bus.publish_timeout_ms must be less than half of database.idle_in_transaction_timeout_ms, \
             or the database ends a relay's transaction while the bus is still being waited for",
        );
        check(
            self.bus.url.is_empty() || self.bus.url_file.is_empty(),
            "set one of bus.url (BROKER_URL) and bus.url_file (BROKER_URL_FILE), not both",
        );
        if let Err(problem) = self.bus_kind() {
            check(false, &problem);
        }
        if self.auth.mode == AuthKind::Jwks {
            check(
                self.auth.jwks_file.is_empty() != self.auth.jwks_url.is_empty(),
                "auth.mode is \"jwks\": set exactly one of auth.jwks_file and auth.jwks_url",
            );
        } else {
            check(
                self.auth.secret.is_empty() || self.auth.secret.len() >= 32,
                "auth.secret must have at least 32 bytes; `openssl rand -hex 32` makes one",
            );
        }
        problems
    }

    /// The database's part.
    pub fn db(&self) -> DbConfig {
        DbConfig {
            url: self.database.url.clone(),
            pool_size: self.database.pool_size,
            acquire_timeout_ms: self.database.acquire_timeout_ms,
            connect_timeout_ms: self.database.connect_timeout_ms,
            statement_timeout_ms: self.database.statement_timeout_ms,
            idle_in_transaction_timeout_ms: self.database.idle_in_transaction_timeout_ms,
        }
    }

    /// The HTTP edge's part.
    pub fn web(&self) -> WebConfig {
        WebConfig {
            max_body_bytes: self.http.max_body_bytes,
            request_timeout_ms: self.http.request_timeout_ms,
            max_concurrent_requests: self.http.max_concurrent_requests,
            max_connections: self.http.max_connections,
            shutdown_grace_ms: self.shutdown.grace_ms,
            idempotency_ttl_s: self.http.idempotency_hours * 3600,
            ..WebConfig::default()
        }
    }

    /// How tokens are checked.
    pub fn auth(&self) -> AuthConfig {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let base = match self.auth.mode {
            AuthKind::Hs256 => AuthConfig::hs256(self.auth.secret.as_bytes()),
            AuthKind::Jwks if self.auth.jwks_url.is_empty() => {
                AuthConfig::jwks(JwksSource::File(self.auth.jwks_file.clone().into()))
            }
            AuthKind::Jwks => AuthConfig::jwks(JwksSource::Url(self.auth.jwks_url.clone())),
        };
        AuthConfig {
            issuer: given(&self.auth.issuer),
            audience: given(&self.auth.audience),
            tenant_claim: self.auth.tenant_claim.clone(),
            ..base
        }
    }

    /// The Postgres bus's part.
    pub fn postgres_bus(&self) -> PostgresBusConfig {
        PostgresBusConfig {
            poll_ms: self.bus.poll_ms,
            notify_interval_ms: self.bus.notify_interval_ms,
            lanes_per_turn: self.bus.lanes_per_turn,
        }
    }

    /// Where the external bus is, unless there is none.
    fn address(&self) -> Address {
        match self.bus.url_file.as_str() {
            "" => Address::Url(self.bus.url.clone()),
            file => Address::File(file.into()),
        }
    }

    /// Which bus carries messages.
    pub fn bus_kind(&self) -> Result<BusKind, String> {
        let url = self.address().read().map_err(|error| format!("bus.url_file: {error}"))?;
        BusKind::of_url(&url).ok_or_else(|| {
            "bus.url (BROKER_URL) must begin with amqp://, amqps://, kafka://, redis:// or rediss://; \
             leave it empty to use PostgreSQL"
                .to_owned()
        })
    }

    /// How an external bus is spoken to.
    pub fn broker(&self) -> BrokerConfig {
        BrokerConfig {
            address: self.address(),
            connect_timeout: Duration::from_millis(self.bus.connect_timeout_ms),
            heartbeat: Duration::from_millis(self.bus.heartbeat_ms),
            publish_timeout: Duration::from_millis(self.bus.publish_timeout_ms),
        }
    }

    /// How messages get to an external bus.
    pub fn relay(&self) -> RelayConfig {
        RelayConfig {
            batch: self.bus.relay_batch,
            tasks: self.bus.relay_tasks,
            attempts: self.bus.publish_attempts,
            patience: Duration::from_millis(self.bus.publish_timeout_ms * 2),
        }
    }

    /// How long what is kept.
    pub fn retention(&self) -> Retention {
        Retention {
            epoch_s: i64::from(self.retention.partition_hours) * 3600,
            keep_s: i64::from(self.retention.keep_days) * 24 * 3600,
            inbox_s: i64::from(self.retention.inbox_days) * 24 * 3600,
            letters_s: i64::from(self.retention.letter_days) * 24 * 3600,
        }
    }

    /// How long work in hand may take at the end.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.shutdown.grace_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_is_a_complete_configuration() {
        let config = Config::load_with(None, &[], |_| None).unwrap();
        assert_eq!(config.database.pool_size, 16);
        assert_eq!(config.http.listen, "127.0.0.1:8080");
    }

    #[test]
    fn the_environment_wins_and_the_specifications_names_are_known() {
        let env = |name: &str| match name {
            "ONCEWARD_HTTP_LISTEN" => Some("0.0.0.0:9".to_owned()),
            "DATABASE_URL" => Some("postgres://x".to_owned()),
            "OUTBOX_DISPATCH_INTERVAL_MS" => Some("250".to_owned()),
            _ => None,
        };
        let config = Config::load_with(None, &[], env).unwrap();
        assert_eq!((config.http.listen.as_str(), config.bus.poll_ms), ("0.0.0.0:9", 250));
        assert_eq!(config.database.url, "postgres://x");
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let env = |name: &str| match name {
            "ONCEWARD_DATABASE_POOL_SIZE" => Some("many".to_owned()),
            "ONCEWARD_HTTP_MAX_BODY_BYTES" => Some("-1".to_owned()),
            _ => None,
        };
        let problems = Config::load_with(None, &[], env).unwrap_err().0;
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn a_service_has_a_section_of_its_own_with_names_the_specification_gives() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Settings {
            max_minor: u64,
            providers: String,
        }
        let section = Section {
            name: "lending",
            defaults: "max_minor = 500000000\nproviders = \"mock\"",
            specified: &[("PAYMENT_MAX_MINOR", "max_minor")],
        };
        let defaults = Settings { max_minor: 500_000_000, providers: "mock".into() };
        assert_eq!(section.default::<Settings>(), defaults);
        let load = |variable: &'static str, text: &'static str| {
            let config = Config::load_with(None, &[section], |name| (name == variable).then(|| text.to_owned()))?;
            config.section::<Settings>(&section)
        };
        assert_eq!(load("-", "").unwrap(), defaults);
        assert_eq!(load("PAYMENT_MAX_MINOR", "9000000000").unwrap().max_minor, 9_000_000_000);
        assert_eq!(load("ONCEWARD_LENDING_PROVIDERS", "stripe").unwrap().providers, "stripe");
        assert!(load("PAYMENT_MAX_MINOR", "-1").unwrap_err().0[0].contains("PAYMENT_MAX_MINOR"));
    }
}

//! Settings: the commented default file, then a file with the differences, then the environment.

mod conversions;
mod key_days;
mod layers;
mod section;
mod unknown_variables;

pub use section::{Section, ServiceSettings, problems_of, violations};

use serde::Deserialize;
use std::path::Path;

/// The documented defaults.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// All settings. Each is documented in `config/default.toml`, which is the default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub database: DatabaseConfig,
    pub http: HttpConfig,
    pub auth: AuthenticationConfig,
    pub bus: BusConfig,
    pub workers: WorkerConfig,
    pub retention: RetentionConfig,
    pub shutdown: ShutdownConfig,
    pub telemetry: TelemetryConfig,
    #[serde(skip)]
    services: toml::Table,
    /// The settings that have the value that `onceward up` uses for demonstrations: `lending.mock_provider = true`.
    #[serde(skip)]
    pub demo: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct DatabaseConfig {
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
pub struct HttpConfig {
    pub listen: String,
    pub metrics_listen: String,
    pub max_body_bytes: usize,
    pub request_timeout_ms: u64,
    pub max_concurrent_requests: usize,
    pub max_connections: usize,
    pub header_read_timeout_ms: u64,
    pub max_header_bytes: usize,
    pub idempotency_hours: u64,
    pub max_stored_response_bytes: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct AuthenticationConfig {
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
pub struct BusConfig {
    pub url: String,
    pub url_file: String,
    pub management_url: String,
    pub namespace: String,
    pub poll_ms: u64,
    pub relay_batch: usize,
    pub relay_tasks: usize,
    pub publish_attempts: u32,
    pub prefetch: usize,
    pub connect_timeout_ms: u64,
    pub heartbeat_ms: u64,
    pub publish_timeout_ms: u64,
    pub backlog_every_ms: u64,
    pub dead_letters_max: u64,
    pub notify_interval_ms: u64,
    pub lanes_per_turn: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WorkerConfig {
    pub slots: usize,
    pub unknown_hours: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RetentionConfig {
    pub partition_hours: u32,
    pub keep_days: u32,
    pub inbox_days: u32,
    pub letter_days: u32,
    pub key_days: String,
    pub sweep_every_s: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ShutdownConfig {
    pub drain_ms: u64,
    pub grace_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TelemetryConfig {
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

/// Everything that is wrong with the settings, reported at once.
#[derive(Debug, thiserror::Error)]
#[error("the settings are invalid:\n{}", .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<String>);

impl Config {
    /// Loads the settings. `file` contains what differs from the defaults; `sections` are those of the services. Fails with
    /// every problem at once.
    pub fn load(file: Option<&Path>, sections: &[Section]) -> Result<Self, ConfigError> {
        Self::load_from(file, sections, Section::table, &environment_names(), |name| std::env::var(name).ok())
    }

    /// Loads the settings for `onceward up`, with the services' demonstration switches as defaults.
    pub fn load_demo(file: Option<&Path>, sections: &[Section]) -> Result<Self, ConfigError> {
        let env = |name: &str| std::env::var(name).ok();
        let mut config = Self::load_from(file, sections, Section::demo_table, &environment_names(), env)?;
        config.demo = config.demo_switches(sections);
        Ok(config)
    }

    /// Like [`Config::load`], with another environment, for tests.
    pub fn load_with(
        file: Option<&Path>,
        sections: &[Section],
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Self::load_from(file, sections, Section::table, &[], env)
    }

    /// `names` are the names of all variables that are set: each one with our prefix must be known.
    fn load_from(
        file: Option<&Path>,
        sections: &[Section],
        defaults: fn(&Section) -> toml::Table,
        names: &[String],
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let config = layers::merge(file, sections, defaults, names, env)?;
        let mut problems = config.problems();
        problems.extend(sections.iter().flat_map(|section| (section.check)(&config, section)));
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
        if let Err(problem) = key_days::parse(&self.retention.key_days, self.retention.keep_days) {
            check(false, &problem);
        }
        check(self.retention.sweep_every_s >= 1, "retention.sweep_every_s must be at least 1");
        check(
            self.http.listen.parse::<std::net::SocketAddr>().is_ok(),
            "http.listen must be an address with a port, like 127.0.0.1:8080",
        );
        check(
            self.http.metrics_listen.is_empty() || self.http.metrics_listen.parse::<std::net::SocketAddr>().is_ok(),
            "http.metrics_listen must be empty or an address with a port, like 127.0.0.1:9464",
        );
        check(self.http.header_read_timeout_ms >= 1, "http.header_read_timeout_ms must be at least 1");
        check(self.http.max_header_bytes >= 8192, "http.max_header_bytes must be at least 8192");
        check(self.bus.relay_batch >= 1, "bus.relay_batch (OUTBOX_DISPATCH_BATCH) must be at least 1");
        check(self.bus.relay_tasks >= 1, "bus.relay_tasks must be at least 1");
        check(self.bus.publish_attempts >= 1, "bus.publish_attempts must be at least 1");
        check((1..=65_535).contains(&self.bus.prefetch), "bus.prefetch (RABBIT_PREFETCH) must be 1 to 65535");
        check(self.bus.heartbeat_ms >= 1_000, "bus.heartbeat_ms must be at least 1000");
        check(self.bus.backlog_every_ms >= 100, "bus.backlog_every_ms must be at least 100");
        check(
            self.bus.publish_timeout_ms * 2 < self.database.idle_in_transaction_timeout_ms,
            "bus.publish_timeout_ms must be less than half of database.idle_in_transaction_timeout_ms, \
             or the database ends a relay's transaction while the relay waits for the bus",
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
                "auth.secret must have at least 32 bytes; create one with `openssl rand -hex 32`",
            );
        }
        problems
    }
}

fn environment_names() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
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
    fn the_environment_wins_and_compatibility_names_are_known() {
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
    fn a_service_has_its_own_section_with_compatibility_names() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Settings {
            max_minor: u64,
            providers: String,
        }
        let section = Section {
            name: "lending",
            defaults: "max_minor = 500000000\nproviders = \"mock\"",
            env_aliases: &[("PAYMENT_MAX_MINOR", "max_minor")],
            demo: &[],
            check: |_, _| Vec::new(),
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

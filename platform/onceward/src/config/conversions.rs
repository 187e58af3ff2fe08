//! Converts the settings into the configuration of each part of the platform.

use super::{AuthKind, Config, key_days};
use onceward_broker::{Address, BrokerConfig, BusKind};
use onceward_db::DbConfig;
use onceward_message_log::{MessageLogConfig, retention::Retention};
use onceward_messaging::relay::RelayConfig;
use onceward_web::{AuthConfig, JwksSource, WebConfig};
use std::{collections::BTreeMap, time::Duration};

impl Config {
    /// Returns the configuration of the database.
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

    /// Returns the configuration of the HTTP server.
    pub fn web(&self) -> WebConfig {
        WebConfig {
            max_body_bytes: self.http.max_body_bytes,
            request_timeout_ms: self.http.request_timeout_ms,
            max_concurrent_requests: self.http.max_concurrent_requests,
            max_connections: self.http.max_connections,
            shutdown_grace_ms: self.shutdown.grace_ms,
            header_read_timeout_ms: self.http.header_read_timeout_ms,
            max_header_bytes: self.http.max_header_bytes,
            idempotency_ttl_s: self.http.idempotency_hours * 3600,
            max_stored_response_bytes: self.http.max_stored_response_bytes,
        }
    }

    /// Returns how tokens are verified.
    pub fn auth(&self) -> AuthConfig {
        let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let base = match self.auth.mode {
            AuthKind::Hs256 => AuthConfig::hs256(self.auth.secret.as_bytes()),
            AuthKind::Jwks if self.auth.jwks_url.is_empty() => {
                AuthConfig::jwks(JwksSource::File(self.auth.jwks_file.clone().into()))
            }
            AuthKind::Jwks => AuthConfig::jwks(JwksSource::Url(self.auth.jwks_url.clone())),
        };
        AuthConfig {
            issuer: non_empty(&self.auth.issuer),
            audience: non_empty(&self.auth.audience),
            tenant_claim: self.auth.tenant_claim.clone(),
            ..base
        }
    }

    /// Returns the configuration of the message log.
    pub fn message_log(&self) -> MessageLogConfig {
        MessageLogConfig {
            poll_ms: self.bus.poll_ms,
            notify_interval_ms: self.bus.notify_interval_ms,
            lanes_per_turn: self.bus.lanes_per_turn,
        }
    }

    /// Returns the address of the external bus; empty if PostgreSQL is the bus.
    fn address(&self) -> Address {
        match self.bus.url_file.as_str() {
            "" => Address::Url(self.bus.url.clone()),
            file => Address::File(file.into()),
        }
    }

    /// Returns the kind of bus that transports messages. Fails if its address cannot be read or has an unknown scheme.
    pub fn bus_kind(&self) -> Result<BusKind, String> {
        let url = self.address().read().map_err(|error| format!("bus.url_file: {error}"))?;
        BusKind::of_url(&url).ok_or_else(|| {
            "bus.url (BROKER_URL) must begin with amqp://, amqps://, kafka://, redis:// or rediss://; \
             leave it empty to use PostgreSQL"
                .to_owned()
        })
    }

    /// Returns the configuration of the connection to an external bus.
    pub fn broker(&self) -> BrokerConfig {
        BrokerConfig {
            address: self.address(),
            connect_timeout: Duration::from_millis(self.bus.connect_timeout_ms),
            heartbeat: Duration::from_millis(self.bus.heartbeat_ms),
            publish_timeout: Duration::from_millis(self.bus.publish_timeout_ms),
            management_url: self.bus.management_url.clone(),
            inbox_retention: Duration::from_secs(u64::from(self.retention.inbox_days) * 24 * 3600),
        }
    }

    /// Returns the configuration of the relay.
    pub fn relay(&self) -> RelayConfig {
        RelayConfig {
            batch: self.bus.relay_batch,
            tasks: self.bus.relay_tasks,
            attempts: self.bus.publish_attempts,
            publish_timeout: Duration::from_millis(self.bus.publish_timeout_ms * 2),
        }
    }

    /// Returns the retention periods.
    pub fn retention(&self) -> Retention {
        Retention {
            epoch_s: i64::from(self.retention.partition_hours) * 3600,
            keep_s: i64::from(self.retention.keep_days) * 24 * 3600,
            inbox_s: i64::from(self.retention.inbox_days) * 24 * 3600,
            letters_s: i64::from(self.retention.letter_days) * 24 * 3600,
        }
    }

    /// Returns for how many days the idempotency keys of some event types are remembered, by event type.
    pub fn key_days(&self) -> BTreeMap<String, u32> {
        key_days::parse(&self.retention.key_days, self.retention.keep_days).unwrap_or_default()
    }

    /// Returns how long readiness reports "not ready" before the API's listener closes.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.shutdown.drain_ms)
    }

    /// Returns how long work in flight may take when the process stops.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.shutdown.grace_ms)
    }
}

//! The service's settings. Each is explained in `config/default.toml`, which also contains the defaults.

use crate::{guard::Networks, retry::RetrySchedule, trust::RootCertificates};
use onceward::{
    Section, config,
    secrets::{KeyText, KeyTexts},
};
use serde::Deserialize;
use std::time::Duration;

/// The section `[webhooks]`.
pub const SECTION: Section = Section {
    name: "webhooks",
    defaults: include_str!("../config/default.toml"),
    env_aliases: &[],
    demo: &[],
    check: config::problems_of::<Settings>,
};

/// How much longer than the endpoint's timeout a lease lasts, so that the result can be recorded.
const LEASE_MARGIN_MS: u64 = 10_000;

/// The settings of the service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub secret_key: KeyText,
    pub secret_keys_before: KeyTexts,
    pub allow_http: bool,
    pub allowed_networks: Networks,
    pub extra_roots: RootCertificates,
    pub timeout_ms: u64,
    pub retry_schedule: RetrySchedule,
    pub jitter_percent: u32,
    pub retry_after_max_s: u64,
    pub breaker_pause_ms: u64,
    pub breaker_max_pause_ms: u64,
    pub in_flight_per_endpoint: u32,
    pub in_flight: usize,
    pub poll_ms: u64,
    pub disable_after_h: u32,
    pub retention_days: u32,
    pub sweep_cron: String,
    pub max_endpoints: u32,
}

impl Settings {
    /// Derives the key for secrets from the platform's own secret if none is set.
    pub fn or_derived_from(mut self, platform_secret: &str) -> Self {
        if self.secret_key.is_empty() {
            self.secret_key = KeyText::borrowed(platform_secret);
        }
        self
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(crate) fn lease_ms(&self) -> i32 {
        i32::try_from(self.timeout_ms.saturating_add(LEASE_MARGIN_MS)).unwrap_or(i32::MAX)
    }
}

impl config::ServiceSettings for Settings {
    fn problems(&self) -> Vec<String> {
        config::violations(&[
            (self.in_flight_per_endpoint >= 1, "webhooks.in_flight_per_endpoint must be at least 1"),
            (
                self.in_flight >= 2,
                "webhooks.in_flight must be at least 2: one request for failing endpoints and one for all others",
            ),
            (
                1 <= self.breaker_pause_ms && self.breaker_pause_ms <= self.breaker_max_pause_ms,
                "webhooks.breaker_pause_ms must be at least 1 and at most webhooks.breaker_max_pause_ms",
            ),
            (self.poll_ms >= 1, "webhooks.poll_ms must be at least 1"),
        ])
    }
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_key_is_preferred_to_the_platforms_and_both_are_redacted() {
        let (configured, platform) =
            ("a key that was made for webhooks alone", "the secret that tokens are signed with");
        let settings = Settings { secret_key: KeyText::borrowed(configured), ..Settings::default() };
        assert_eq!(settings.clone().or_derived_from(platform).secret_key, settings.secret_key);
        let derived = Settings::default().or_derived_from(platform);
        assert_eq!(derived.secret_key, KeyText::borrowed(platform));
        assert!(!format!("{settings:?} {derived:?}").contains("that"));
    }
}

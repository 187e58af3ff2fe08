//! The service's settings. What each means is written in `config/default.toml`, which is the default.

use crate::{
    guard::Networks,
    retry::Waits,
    trust::Roots,
    vault::{KeyText, KeyTexts},
};
use onceward::Section;
use serde::Deserialize;
use std::time::Duration;

/// The section `[webhooks]`.
pub const SECTION: Section =
    Section { name: "webhooks", defaults: include_str!("../config/default.toml"), specified: &[] };

/// What a lease lasts beyond the time that the endpoint has: for writing down how it went.
const LEASE_SPARE_MS: u64 = 10_000;

/// What can be set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub secret_key: KeyText,
    pub secret_keys_before: KeyTexts,
    pub allow_http: bool,
    pub allowed_networks: Networks,
    pub extra_roots: Roots,
    pub timeout_ms: u64,
    pub retry_schedule: Waits,
    pub jitter_percent: u32,
    pub retry_after_max_s: u64,
    pub in_flight_per_endpoint: u32,
    pub in_flight: usize,
    pub poll_ms: u64,
    pub disable_after_h: u32,
    pub retention_days: u32,
    pub sweep_cron: String,
    pub max_endpoints: u32,
}

impl Settings {
    /// Derives the key for secrets from the platform's own secret, where none is set.
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
        i32::try_from(self.timeout_ms.saturating_add(LEASE_SPARE_MS)).unwrap_or(i32::MAX)
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
    fn a_key_of_ones_own_comes_before_the_platforms_and_neither_is_shown() {
        let (ours, theirs) = ("a key that was made for webhooks alone", "the secret that tokens are signed with");
        let own = Settings { secret_key: KeyText::borrowed(ours), ..Settings::default() };
        assert_eq!(own.clone().or_derived_from(theirs).secret_key, own.secret_key);
        let derived = Settings::default().or_derived_from(theirs);
        assert_eq!(derived.secret_key, KeyText::borrowed(theirs));
        assert!(!format!("{own:?} {derived:?}").contains("that"));
    }
}

//! The service's settings. Each is explained in `config/default.toml`, which contains the defaults.

use hmac::{Hmac, KeyInit, Mac};
use ipnet::IpNet;
use onceward::{Section, config};
use serde::Deserialize;
use sha2::Sha256;
use std::{fmt, net::IpAddr};

/// The section `[surveys]`.
pub const SECTION: Section = Section {
    name: "surveys",
    defaults: include_str!("../config/default.toml"),
    env_aliases: &[],
    demo: &[],
    check: config::problems_of::<Settings>,
};

/// The settings of the service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub token_secret: SecretSetting,
    pub session_token_hours: u32,
    pub reservation_s: u32,
    pub session_s: u32,
    pub expire_cron: String,
    pub expire_batch: u32,
    pub rate_per_s: u32,
    pub rate_burst: u32,
    pub steps_waiting_max: usize,
    pub trusted_proxies: Vec<TrustedProxy>,
    pub cache_entries: usize,
    pub cache_mib: usize,
    pub cache_url: SecretSetting,
    pub live_every_ms: u64,
    pub live_listeners_max: usize,
    pub live_link_minutes: u32,
    pub live_keep_days: u32,
    pub live_forget_cron: String,
}

impl config::ServiceSettings for Settings {
    fn problems(&self) -> Vec<String> {
        config::violations(&[
            (self.rate_burst >= 1, "surveys.rate_burst must be at least 1"),
            (self.steps_waiting_max >= 1, "surveys.steps_waiting_max must be at least 1"),
            ((1..=1 << 20).contains(&self.cache_mib), "surveys.cache_mib must be from 1 to 1048576"),
            (self.live_every_ms >= 100, "surveys.live_every_ms must be at least 100"),
        ])
    }
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}

impl Settings {
    /// Derives the token secret from the platform's secret if none is set.
    pub fn or_derived_from(mut self, platform_secret: &str) -> Self {
        if self.token_secret.is_empty() && !platform_secret.is_empty() {
            let mac = Hmac::<Sha256>::new_from_slice(platform_secret.as_bytes());
            let mut mac = mac.expect("HMAC accepts keys of any length");
            mac.update(b"onceward surveys: tokens of respondents");
            self.token_secret = SecretSetting(hex::encode(mac.finalize().into_bytes()));
        }
        self
    }
}

/// Text that is redacted in debug output.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretSetting(pub String);

impl SecretSetting {
    /// Returns whether the setting is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "unset" } else { "set" })
    }
}

/// An address or a network of a trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TrustedProxy(IpNet);

impl TrustedProxy {
    /// Returns whether the address is this proxy or belongs to this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl TryFrom<String> for TrustedProxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        net.map(Self).map_err(|_| {
            format!("{text:?} is neither an IP address nor a network; write it like 10.0.0.1 or 10.0.0.0/8")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let settings = Settings::default().or_derived_from("a platform secret that is long enough");
        assert_eq!(settings.token_secret.0.len(), 64);
        assert!(!format!("{settings:?}").contains(&settings.token_secret.0));
        let set = Settings { token_secret: SecretSetting("ours".into()), ..Settings::default() };
        assert_eq!(set.or_derived_from("theirs").token_secret, SecretSetting("ours".into()));
    }

    #[test]
    fn proxies_are_addresses_or_networks() {
        let proxy = |text: &str| TrustedProxy::try_from(text.to_owned());
        assert!(proxy("10.0.0.0/8").unwrap().contains("10.1.2.3".parse().unwrap()));
        assert!(!proxy("10.0.0.1").unwrap().contains("10.0.0.2".parse().unwrap()));
        assert!(proxy("here").is_err());
    }
}

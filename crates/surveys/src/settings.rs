//! The service's settings. What each means is written in `config/default.toml`, which is the default.

use hmac::{Hmac, KeyInit, Mac};
use ipnet::IpNet;
use onceward::Section;
use serde::Deserialize;
use sha2::Sha256;
use std::{fmt, net::IpAddr};

/// The section `[surveys]`.
pub const SECTION: Section =
    Section { name: "surveys", defaults: include_str!("../config/default.toml"), specified: &[] };

/// What can be set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub token_secret: Secret,
    pub session_token_hours: u32,
    pub reservation_s: u32,
    pub session_s: u32,
    pub expire_cron: String,
    pub expire_batch: u32,
    pub rate_per_s: u32,
    pub rate_burst: u32,
    pub steps_waiting_max: usize,
    pub trusted_proxies: Vec<Proxy>,
    pub cache_entries: usize,
    pub cache_url: Secret,
    pub live_every_ms: u64,
    pub live_listeners_max: usize,
    pub live_link_minutes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}

impl Settings {
    /// Uses a key that is made from the platform's own secret, where none is set.
    pub fn or_derived_from(mut self, platform_secret: &str) -> Self {
        if self.token_secret.is_empty() && !platform_secret.is_empty() {
            let mac = Hmac::<Sha256>::new_from_slice(platform_secret.as_bytes());
            let mut mac = mac.expect("HMAC takes keys of any length");
            mac.update(b"onceward surveys: tokens of respondents");
            self.token_secret = Secret(hex::encode(mac.finalize().into_bytes()));
        }
        self
    }
}

/// Text that is not shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl Secret {
    /// Nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "unset" } else { "set" })
    }
}

/// An address or a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Proxy(IpNet);

impl Proxy {
    /// Whether the address is one of them.
    pub fn is(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl TryFrom<String> for Proxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        net.map(Self).map_err(|_| format!("{text:?} is no address and no network; write 10.0.0.1 or 10.0.0.0/8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let settings = Settings::default().or_derived_from("a secret of the platform's, which is long");
        assert_eq!(settings.token_secret.0.len(), 64);
        assert!(!format!("{settings:?}").contains(&settings.token_secret.0));
        let set = Settings { token_secret: Secret("ours".into()), ..Settings::default() };
        assert_eq!(set.or_derived_from("theirs").token_secret, Secret("ours".into()));
    }

    #[test]
    fn proxies_are_addresses_or_networks() {
        let proxy = |text: &str| Proxy::try_from(text.to_owned());
        assert!(proxy("10.0.0.0/8").unwrap().is("10.1.2.3".parse().unwrap()));
        assert!(!proxy("10.0.0.1").unwrap().is("10.0.0.2".parse().unwrap()));
        assert!(proxy("here").is_err());
    }
}

//! Networks that are allowed although they are not public: `10.1.0.0/16 fd00::/8`.

use serde::Deserialize;
use std::{net::IpAddr, str::FromStr};

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Networks(Vec<Network>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    base: IpAddr,
    prefix: u32,
}

/// The error for text that is not a list of networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a network: write an address and the length of its prefix, such as 10.1.0.0/16")]
pub struct InvalidNetwork(String);

impl Networks {
    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(ip))
    }
}

impl Network {
    fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                (u32::from(base) ^ u32::from(ip)).checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                (u128::from(base) ^ u128::from(ip)).checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let base: IpAddr = base.parse().map_err(|_| invalid())?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(invalid)?;
        Ok(Self { base, prefix })
    }
}

impl FromStr for Networks {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<String> for Networks {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(networks: &str, address: &str) -> bool {
        let networks: Networks = networks.parse().expect("networks");
        networks.check(address.parse().expect("an address")).is_ok()
    }

    #[test]
    fn listed_networks_are_allowed_and_adjacent_addresses_are_not() {
        assert!(allowed("10.1.0.0/16 127.0.0.1/32", "10.1.255.255"));
        assert!(allowed("10.1.0.0/16 127.0.0.1/32", "127.0.0.1"));
        assert!(allowed("127.0.0.1/32", "::ffff:127.0.0.1"));
        assert!(!allowed("10.1.0.0/16 127.0.0.1/32", "10.2.0.0"));
        assert!(!allowed("10.1.0.0/16 127.0.0.1/32", "127.0.0.2"));
        assert!(allowed("fd00::/8", "fd12::1"));
        assert!(!allowed("fd00::/8", "fe80::1"));
        assert!(allowed("0.0.0.0/0", "192.168.1.1"));
        assert!(!allowed("0.0.0.0/0", "fd00::1"));
        assert!(!allowed("", "10.0.0.1"));
    }

    #[test]
    fn the_error_names_the_invalid_network() {
        for bad in ["10.0.0.0", "10.0.0.0/33", "::/129", "here/8", "10.0.0.0/-1"] {
            assert_eq!(bad.parse::<Networks>(), Err(InvalidNetwork(bad.to_owned())));
        }
    }
}

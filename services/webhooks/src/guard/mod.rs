//! Restricts the addresses that messages are sent to: public ones, and those that the settings allow.
//!
//! An address is checked immediately before connecting, and the connection goes to exactly that address. The address
//! that a name had when the endpoint was saved, or a moment ago, does not count, so DNS rebinding has no effect.

mod address;
mod networks;
mod resolver;

pub use networks::{InvalidNetwork, Networks};
pub(crate) use resolver::{GuardedResolver, SystemResolver};

use std::net::IpAddr;

/// The error for an address that must not be used, with its kind. The address itself is not reported, because that would
/// reveal our network to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its address is {0}, and nothing is sent there: use a public address, or allow its network in webhooks.allowed_networks"
)]
pub struct RefusedAddress(pub(crate) &'static str);

impl Networks {
    /// Fails unless connecting to `ip` is allowed.
    pub fn check(&self, ip: IpAddr) -> Result<(), RefusedAddress> {
        // The system connects to the embedded IPv4 address.
        let ip = ip.to_canonical();
        match address::reserved(ip) {
            Some(kind) if !self.contains(ip) => Err(RefusedAddress(kind)),
            _ => Ok(()),
        }
    }
}

//! Where messages may be sent: not to our own machines, unless somebody allows it.
//!
//! An address is looked at when a connection is about to be made to it, and the connection is made to that very address. What a
//! name meant when the endpoint was saved, or a moment ago, does not count, so changing the name afterwards leads nowhere.

mod address;
mod networks;
mod resolver;

pub use networks::{Networks, NotNetworks};
pub(crate) use resolver::{Guarded, System};

use std::net::IpAddr;

/// An address that nothing is sent to, and what is wrong with it. The address itself is not told: it would draw a map of our
/// network for whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its address is {0}, and nothing is sent there: give a public one, or allow its network in webhooks.allowed_networks"
)]
pub struct Refused(pub(crate) &'static str);

impl Networks {
    /// Whether a connection may be made to `ip`.
    pub fn check(&self, ip: IpAddr) -> Result<(), Refused> {
        // The system connects to the IPv4 address that is written into this one.
        let ip = ip.to_canonical();
        match address::reserved(ip) {
            Some(kind) if !self.contain(ip) => Err(Refused(kind)),
            _ => Ok(()),
        }
    }
}

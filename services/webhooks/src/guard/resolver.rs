//! Resolves names to allowed addresses only.

use super::{Networks, RefusedAddress};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// More addresses than a name has in practice.
const MAX_ADDRESSES: usize = 32;

/// Filters another resolver's addresses down to the allowed ones. Connections go to exactly the addresses returned
/// here.
pub(crate) struct GuardedResolver {
    pub inner: Arc<dyn Resolve>,
    pub allowed: Networks,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, allowed) = (self.inner.resolve(name), self.allowed.clone());
        Box::pin(async move {
            let addresses = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await.map_err(|_| lookup_timed_out())??;
            let mut refused = None;
            let mut usable = Vec::new();
            for address in addresses.take(MAX_ADDRESSES) {
                match allowed.check(address.ip()) {
                    Ok(()) => usable.push(address),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if usable.is_empty() => Err(Box::<RefusedAddress>::new(error).into()),
                _ => Ok(Box::new(usable.into_iter()) as Addrs),
            }
        })
    }
}

fn lookup_timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the DNS lookup timed out")
}

/// The system's resolver.
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

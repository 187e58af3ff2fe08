//! From names to addresses, of which only those that are allowed come through.

use super::{Networks, Refused};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// More than a name has.
const MOST_ADDRESSES: usize = 32;

/// Lets through what another resolver found, as far as it is allowed. The connection is made to what comes out here.
pub(crate) struct Guarded {
    pub inner: Arc<dyn Resolve>,
    pub allowed: Networks,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, allowed) = (self.inner.resolve(name), self.allowed.clone());
        Box::pin(async move {
            let found = tokio::time::timeout(LOOKUP_TIMEOUT, found).await.map_err(|_| too_slow())??;
            let mut refused = None;
            let mut open = Vec::new();
            for address in found.take(MOST_ADDRESSES) {
                match allowed.check(address.ip()) {
                    Ok(()) => open.push(address),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if open.is_empty() => Err(Box::<Refused>::new(error).into()),
                _ => Ok(Box::new(open.into_iter()) as Addrs),
            }
        })
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the name could not be looked up in time")
}

/// The system's own.
pub(crate) struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

//! Free ports on the loopback interface.
//!
//! Not the ones that the system hands out for port 0: outgoing connections get theirs from the same range. A client that
//! keeps knocking at a killed server's port would sooner or later be given that very port as its own, connect to itself,
//! and the server could not come back.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

/// Below where Linux (32768) and others (49152) begin to take ports for outgoing connections.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;
/// How far apart processes begin to look: a server binds its ports seconds after they were found free, and two test
/// processes must not choose the same ones meanwhile.
const APART: u32 = 16;

/// Ports that nobody listens on, each given out once by this process.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut ports = Vec::with_capacity(count);
    for _ in 0..COUNT {
        let offset = process::id().wrapping_mul(APART).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).map_err(|_| Error::NoPort)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
            if ports.len() == count {
                return Ok(ports);
            }
        }
    }
    Err(Error::NoPort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_out_once_and_taken_ones_are_skipped() {
        let first = free(3).unwrap();
        let taken: Vec<TcpListener> =
            first.iter().map(|port| TcpListener::bind(("127.0.0.1", *port)).unwrap()).collect();
        let second = free(3).unwrap();
        assert!(second.iter().all(|port| !first.contains(port)), "{first:?} {second:?}");
        drop(taken);
    }
}

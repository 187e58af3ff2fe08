//! Loopback ports that are reserved for one server for as long as it has an owner.
//!
//! They are not ephemeral ports (port 0), because outgoing connections use the same range: a client that keeps connecting
//! to a killed server's port would sooner or later get that port as its own, connect to itself, and the server could not
//! restart. Checking that a port is free is not enough: a server binds its ports seconds later, and releases them between
//! a kill and a restart. So each port is reserved by a locked file, which all processes of this user see and which is
//! unlocked when the owner ends.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::Index;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::LocalBrokerError;

/// Below the ephemeral ports of Linux (from 32768) and other systems (from 49152).
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;
/// Processes start their search in different slots, so that they rarely collide.
const START_SLOTS: u32 = 128;
const SLOT_PORTS: u32 = 16;

/// Reserved ports.
pub struct Ports {
    numbers: Vec<u16>,
    _locks: Vec<File>,
}

impl Index<usize> for Ports {
    type Output = u16;

    fn index(&self, index: usize) -> &u16 {
        &self.numbers[index]
    }
}

/// Reserves ports that are neither in use nor reserved. Never returns the same port twice in a process, so that clients of
/// an earlier server do not reach another one. `own_file` is any file of this user.
pub(crate) fn reserve(count: usize, own_file: &File) -> Result<Ports, LocalBrokerError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = folder(own_file)?;
    let mut ports = Ports { numbers: Vec::with_capacity(count), _locks: Vec::with_capacity(count) };
    for _ in 0..COUNT {
        let offset = process::id() % START_SLOTS * SLOT_PORTS + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + offset % COUNT).map_err(|_| LocalBrokerError::NoPort)?;
        if let Some(lock) = lock(&folder.join(port.to_string()))?
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            ports.numbers.push(port);
            ports._locks.push(lock);
            if ports.numbers.len() == count {
                return Ok(ports);
            }
        }
    }
    Err(LocalBrokerError::NoPort)
}

/// Returns the folder of this user's reservations. Fails if it belongs to another user: the temp folder is shared.
fn folder(own_file: &File) -> Result<PathBuf, LocalBrokerError> {
    let uid = own_file.metadata().map_err(LocalBrokerError::io("read", Path::new("a lock file")))?.uid();
    let folder = env::temp_dir().join(format!("onceward-ports-{uid}"));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(LocalBrokerError::io("create", &folder)(error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(&folder).map_err(LocalBrokerError::io("read", &folder))?;
    if metadata.is_dir() && metadata.uid() == uid {
        Ok(folder)
    } else {
        Err(LocalBrokerError::ForeignFolder { folder })
    }
}

fn lock(path: &Path) -> Result<Option<File>, LocalBrokerError> {
    let mut options = OpenOptions::new();
    let file =
        options.create(true).truncate(false).write(true).open(path).map_err(LocalBrokerError::io("open", path))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::new_temporary_folder;

    #[test]
    fn a_port_in_use_or_reserved_is_not_returned() {
        let scratch = new_temporary_folder().unwrap();
        let own_file = File::create(scratch.join("own_file")).unwrap();
        let first = reserve(3, &own_file).unwrap();
        let listening = TcpListener::bind(("127.0.0.1", first[0])).unwrap();
        let second = reserve(3, &own_file).unwrap();
        assert!(second.numbers.iter().all(|port| !first.numbers.contains(port)), "a port was returned twice");
        let path = folder(&own_file).unwrap().join(first[1].to_string());
        assert!(lock(&path).unwrap().is_none(), "another process could reserve it, too");
        drop((first, listening));
        assert!(lock(&path).unwrap().is_some(), "the reservation was not released");
        fs::remove_dir_all(scratch).unwrap();
    }
}

//! Ports on the loopback interface that belong to one server for as long as it has an owner.
//!
//! Not the ones that the system hands out for port 0: outgoing connections get theirs from the same range. A client that
//! keeps knocking at a killed server's port would sooner or later be given that very port as its own, connect to itself,
//! and the server could not come back. And not merely free ones: a server binds its ports seconds after they were found
//! free, and gives them up between a kill and a restart. So each is reserved by a locked file, which all processes of this
//! user see and which the end of the owner unlocks.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::Index;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;

/// Below where Linux (32768) and others (49152) begin to take ports for outgoing connections.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;
/// Processes begin to look at different places, so that they rarely meet.
const PLACES: u32 = 128;
const APART: u32 = 16;

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

/// Ports that nobody listens on and nobody has reserved. A process is given none twice: what still knocks at one that it
/// had before shall not meet another server there. `ours` is any file of this user.
pub(crate) fn reserve(count: usize, ours: &File) -> Result<Ports, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = folder(ours)?;
    let mut ports = Ports { numbers: Vec::with_capacity(count), _locks: Vec::with_capacity(count) };
    for _ in 0..COUNT {
        let offset = process::id() % PLACES * APART + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + offset % COUNT).map_err(|_| Error::NoPort)?;
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
    Err(Error::NoPort)
}

/// The folder of this user's reservations. In a place that all share, one that somebody else prepared will not do.
fn folder(ours: &File) -> Result<PathBuf, Error> {
    let uid = ours.metadata().map_err(Error::io("read", Path::new("a lock file")))?.uid();
    let folder = env::temp_dir().join(format!("onceward-ports-{uid}"));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io("create", &folder)(error)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(&folder).map_err(Error::io("read", &folder))?;
    if metadata.is_dir() && metadata.uid() == uid { Ok(folder) } else { Err(Error::ForeignFolder { folder }) }
}

fn lock(path: &Path) -> Result<Option<File>, Error> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(path).map_err(Error::io("open", path))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::new_temporary_folder;

    #[test]
    fn a_port_that_is_listened_on_or_reserved_is_not_given_out() {
        let scratch = new_temporary_folder().unwrap();
        let ours = File::create(scratch.join("ours")).unwrap();
        let first = reserve(3, &ours).unwrap();
        let listening = TcpListener::bind(("127.0.0.1", first[0])).unwrap();
        let second = reserve(3, &ours).unwrap();
        assert!(second.numbers.iter().all(|port| !first.numbers.contains(port)), "given out twice");
        let path = folder(&ours).unwrap().join(first[1].to_string());
        assert!(lock(&path).unwrap().is_none(), "another process could reserve it, too");
        drop((first, listening));
        assert!(lock(&path).unwrap().is_some(), "nobody can ever have it again");
        fs::remove_dir_all(scratch).unwrap();
    }
}

//! `postmaster.pid`: the server's own record of its identity and of how far its start has progressed.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The lines of `postmaster.pid` that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    pub(crate) port: Option<u16>,
    pub(crate) socket_dir: Option<PathBuf>,
    pub(crate) ready: bool,
}

impl PidFile {
    /// Reads the file; `None` when it does not exist or is still being written.
    pub(crate) fn read(pg_dir: &Path) -> Option<PidFile> {
        PidFile::parse(&fs::read_to_string(pg_dir.join("postmaster.pid")).ok()?)
    }

    fn parse(text: &str) -> Option<PidFile> {
        // Lines: pid, data folder, start time, port, socket folder, listen address, shared memory, status.
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let line = |number: usize| lines.get(number).copied().filter(|line| !line.is_empty());
        Some(PidFile {
            pid: line(0)?.parse().ok()?,
            port: line(3).and_then(|port| port.parse().ok()),
            socket_dir: line(4).map(PathBuf::from),
            ready: line(7) == Some("ready"),
        })
    }

    /// Whether a server listens on the socket of this file. The kernel accepts the connection, so a busy server counts
    /// too, and a process that merely got the same pid after a reboot does not.
    pub(crate) fn is_listening(&self) -> bool {
        self.socket().is_some_and(|socket| UnixStream::connect(socket).is_ok())
    }

    /// The socket's path.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        Some(self.socket_dir.as_ref()?.join(format!(".s.PGSQL.{}", self.port?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_server_is_read_from_its_file() {
        let file = PidFile::parse("42\n/data/pg\n1700000000\n5432\n/data/socket\n\n  8913 65536\nready   \n").unwrap();
        assert!(file.ready);
        assert_eq!((file.pid, file.socket()), (42, Some(PathBuf::from("/data/socket/.s.PGSQL.5432"))));
    }

    #[test]
    fn a_file_that_is_still_being_written_is_not_ready() {
        assert!(!PidFile::parse("42\n/data/pg\n1700000000\n").unwrap().ready);
        assert_eq!(PidFile::parse(""), None);
    }
}

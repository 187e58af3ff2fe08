//! A server that outlives the process that started it, as `cargo xtask services up` needs.

use std::path::{Path, PathBuf};

use crate::home::Home;
use crate::pidfile::PidFile;
use crate::{Error, Programs, Shutdown, leftover, url};

/// A running server without an owning process.
#[derive(Debug)]
pub struct Detached {
    programs: Programs,
    home: Home,
    pid: u32,
    socket_dir: PathBuf,
    port: u16,
}

impl Detached {
    pub(crate) fn new(programs: Programs, home: Home, pid: u32, socket_dir: PathBuf, port: u16) -> Detached {
        Detached { programs, home, pid, socket_dir, port }
    }

    /// The server that runs on this data folder, if one does.
    pub fn find(programs: &Programs, data: &Path) -> Result<Option<Detached>, Error> {
        if !data.exists() {
            return Ok(None);
        }
        let home = Home::settle(programs, data)?;
        let Some(file) = PidFile::read(&home.pg()).filter(PidFile::answers) else {
            return Ok(None);
        };
        let (Some(socket_dir), Some(port)) = (file.socket_dir, file.port) else {
            return Ok(None);
        };
        Ok(Some(Detached { programs: programs.clone(), home, pid: file.pid, socket_dir, port }))
    }

    /// A URL for one of its databases, over the private socket.
    pub fn url(&self, database: &str) -> String {
        url::socket(&self.socket_dir, self.port, database)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where its data really is.
    pub fn data_dir(&self) -> &Path {
        &self.home.base
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.home.log()
    }

    /// Shuts it down and waits for its end.
    pub fn stop(self, mode: Shutdown) -> Result<(), Error> {
        leftover::stop(&self.programs, &self.home, mode)
    }
}

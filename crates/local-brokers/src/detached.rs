//! A server that outlives the process that started it, as `cargo xtask services up` needs.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::record::Record;
use crate::{Error, files, processes};

/// A running server without an owning process.
pub struct Detached {
    pub(crate) pid: u32,
    pub(crate) url: String,
    pub(crate) log_path: PathBuf,
}

impl Detached {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How clients reach it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server's log.
    pub fn log_path(&self) -> &Path {
        &self.log_path
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").field("pid", &self.pid).field("log_path", &self.log_path).finish_non_exhaustive()
    }
}

/// The server that runs in this folder, if one does: a process that merely has its number by now does not count.
pub fn find_detached(folder: &Path) -> Result<Option<Detached>, Error> {
    let running = Record::read(folder)?.filter(|record| record.main.lives());
    Ok(running.map(|record| Detached { pid: record.main.pid, url: record.url, log_path: folder.join("log") }))
}

/// Stops the server of this folder and what it left behind, and waits for the end. No server is fine; one whose owner
/// lives is [`Error::InUse`].
pub fn stop_detached(folder: &Path) -> Result<(), Error> {
    let Some(record) = Record::read(folder)? else {
        return Ok(());
    };
    let _lock = files::lock(folder)?;
    let ended = processes::end_recorded(&record, &folder.join("log"));
    Record::remove(folder)?;
    ended
}

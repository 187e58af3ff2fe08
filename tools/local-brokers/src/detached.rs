//! A server that outlives the process that started it, as `cargo xtask services up` needs.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::record::ProcessRecord;
use crate::{LocalBrokerError, files, process_group};

/// A running server without an owning process.
pub struct DetachedServer {
    pub(crate) pid: u32,
    pub(crate) url: String,
    pub(crate) log_path: PathBuf,
}

impl DetachedServer {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The URL for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server's log.
    pub fn log_path(&self) -> &Path {
        &self.log_path
    }
}

impl fmt::Debug for DetachedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedServer")
            .field("pid", &self.pid)
            .field("log_path", &self.log_path)
            .finish_non_exhaustive()
    }
}

/// Returns the server that is running in this folder, if any. Another process that reuses its pid does not count.
pub fn find_detached(folder: &Path) -> Result<Option<DetachedServer>, LocalBrokerError> {
    let running = ProcessRecord::read(folder)?.filter(|record| record.main.is_running());
    Ok(running.map(|record| DetachedServer { pid: record.main.pid, url: record.url, log_path: folder.join("log") }))
}

/// Stops the server of this folder and its remaining processes, and waits until they have ended. Does nothing if there is
/// none. Fails with [`LocalBrokerError::InUse`] if its owner is alive.
pub fn stop_detached(folder: &Path) -> Result<(), LocalBrokerError> {
    let Some(record) = ProcessRecord::read(folder)? else {
        return Ok(());
    };
    let _lock = files::lock(folder)?;
    let ended = process_group::stop_recorded(&record, &folder.join("log"));
    ProcessRecord::remove(folder)?;
    ended
}

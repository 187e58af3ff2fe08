//! A server that outlives the process that started it, as `cargo xtask services up` needs.

use std::path::{Path, PathBuf};

use crate::cluster_paths::ClusterPaths;
use crate::pidfile::PidFile;
use crate::{LocalPostgresError, Programs, ShutdownMode, previous_run, url};

/// A running server without an owning process.
#[derive(Debug)]
pub struct DetachedCluster {
    programs: Programs,
    paths: ClusterPaths,
    pid: u32,
    socket_dir: PathBuf,
    port: u16,
}

impl DetachedCluster {
    pub(crate) fn new(
        programs: Programs,
        paths: ClusterPaths,
        pid: u32,
        socket_dir: PathBuf,
        port: u16,
    ) -> DetachedCluster {
        DetachedCluster { programs, paths, pid, socket_dir, port }
    }

    /// Returns the server that runs on this data folder, if any.
    pub fn find(programs: &Programs, data: &Path) -> Result<Option<DetachedCluster>, LocalPostgresError> {
        if !data.exists() {
            return Ok(None);
        }
        let paths = ClusterPaths::resolve(programs, data)?;
        let Some(file) = PidFile::read(&paths.pg()).filter(PidFile::is_listening) else {
            return Ok(None);
        };
        let (Some(socket_dir), Some(port)) = (file.socket_dir, file.port) else {
            return Ok(None);
        };
        Ok(Some(DetachedCluster { programs: programs.clone(), paths, pid: file.pid, socket_dir, port }))
    }

    /// Returns a URL for one of its databases, over the private socket.
    pub fn url(&self, database: &str) -> String {
        url::socket(&self.socket_dir, self.port, database)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder that holds its data.
    pub fn data_dir(&self) -> &Path {
        &self.paths.base
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.paths.log()
    }

    /// Shuts the server down and waits until it has ended.
    pub fn stop(self, mode: ShutdownMode) -> Result<(), LocalPostgresError> {
        previous_run::stop(&self.programs, &self.paths, mode)
    }
}

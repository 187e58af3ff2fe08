//! A server that this process owns: start, stop, kill, restart. Dropping it always ends the server.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{LocalBroker, ServerInstance};
use crate::files::{self, Log};
use crate::process::POLL;
use crate::process_group::{self, ProcessGroup};
use crate::record::ProcessRecord;
use crate::{DetachedServer, LocalBrokerError, ports};

/// Far longer than a start or a recovery takes, because a busy machine may be slow.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A server that this process owns and runs as its child.
///
/// Dropping it stops the server, and so does the end of this process for any reason. [`Server::detach`] leaves it running
/// instead.
pub struct Server<B: LocalBroker> {
    programs: B,
    instance: ServerInstance,
    processes: Option<ProcessGroup>,
    lock: File,
    temporary: bool,
}

impl<B: LocalBroker> Server<B> {
    /// Starts the server with the data in `folder`, which may be new, and waits until it is ready.
    ///
    /// Stops a server that an earlier owner left running there. Fails with [`LocalBrokerError::InUse`] if another owner is alive.
    pub fn start(programs: &B, folder: &Path) -> Result<Self, LocalBrokerError> {
        Self::start_in(programs, files::private_folder(folder)?, false)
    }

    /// Starts the server in a new folder that is removed when this value is dropped or this process ends.
    pub fn temporary(programs: &B) -> Result<Self, LocalBrokerError> {
        Self::start_in(programs, files::new_temporary_folder()?, true)
    }

    fn start_in(programs: &B, folder: PathBuf, temporary: bool) -> Result<Self, LocalBrokerError> {
        let lock = files::lock(&folder)?;
        if let Some(record) = ProcessRecord::read(&folder)? {
            // It does not matter here if the old server had to be killed.
            let _ = process_group::stop_recorded(&record, &folder);
            ProcessRecord::remove(&folder)?;
        }
        let instance =
            ServerInstance { ports: ports::reserve(B::PORTS, &lock)?, password: files::password(&folder)?, folder };
        let mut server = Server { programs: programs.clone(), instance, processes: None, lock, temporary };
        server.programs.prepare(&server.instance)?;
        match server.launch() {
            Ok(()) => Ok(server),
            Err(error) => {
                // The error refers to the log, so the folder is kept.
                server.temporary = false;
                Err(error)
            }
        }
    }

    pub(crate) fn instance(&self) -> &ServerInstance {
        &self.instance
    }

    pub(crate) fn programs(&self) -> &B {
        &self.programs
    }

    /// The URL for clients, with the password if there is one.
    pub fn url(&self) -> String {
        B::url(&self.instance)
    }

    /// The port on 127.0.0.1 that clients use.
    pub fn port(&self) -> u16 {
        self.instance.port()
    }

    /// The server's process, unless it was stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.processes.as_ref().and_then(ProcessGroup::pid)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.instance.folder
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.instance.log()
    }

    /// Whether the server is running; false after a stop or a crash.
    pub fn is_running(&self) -> bool {
        self.processes.as_ref().is_some_and(ProcessGroup::is_running)
    }

    /// Shuts the server down cleanly and waits until it has ended. Does nothing if it is stopped.
    pub fn stop(&mut self) -> Result<(), LocalBrokerError> {
        let stopped = self.processes.take().map_or(Ok(()), |processes| processes.stop(&self.instance.log()));
        ProcessRecord::remove(&self.instance.folder)?;
        stopped
    }

    /// Kills the server (SIGKILL) to simulate a crash.
    pub fn kill(&mut self) -> Result<(), LocalBrokerError> {
        let killed = self.processes.take().map_or(Ok(()), |mut processes| processes.kill());
        ProcessRecord::remove(&self.instance.folder)?;
        killed
    }

    /// Starts the server again with the same ports and data; stops it first if it is running.
    pub fn restart(&mut self) -> Result<(), LocalBrokerError> {
        self.stop()?;
        self.launch()
    }

    /// Leaves the server running when this process ends; returns `None` if it is not running. [`crate::find_detached`]
    /// finds it again; [`crate::stop_detached`] or a later start in the same folder stops it.
    pub fn detach(mut self) -> Option<DetachedServer> {
        let processes = self.processes.take_if(|processes| processes.is_running())?;
        let pid = processes.pid()?;
        processes.release();
        self.temporary = false;
        Some(DetachedServer { pid, url: self.url(), log_path: self.log_path() })
    }

    fn launch(&mut self) -> Result<(), LocalBrokerError> {
        let log = Log::open(self.instance.log())?;
        let folder_to_remove = self.temporary.then_some(self.instance.folder.as_path());
        let processes = ProcessGroup::spawn(&self.programs, &self.instance, &log, folder_to_remove)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !B::is_ready(&self.instance) {
            let why = if !processes.is_running() {
                "ended while starting".to_owned()
            } else if Instant::now() > deadline {
                format!("was not ready within {} s", START_TIMEOUT.as_secs())
            } else {
                thread::sleep(POLL);
                continue;
            };
            drop(processes);
            ProcessRecord::remove(&self.instance.folder)?;
            return Err(LocalBrokerError::NotReady {
                name: B::NAME,
                why,
                log_path: log.path.clone(),
                tail: log.tail(),
            });
        }
        self.processes = Some(processes);
        Ok(())
    }
}

impl<B: LocalBroker> Drop for Server<B> {
    fn drop(&mut self) {
        // Errors cannot be returned here. Temporary data needs no clean shutdown.
        let _ = if self.temporary {
            self.kill()
        } else if self.processes.is_some() {
            self.stop()
        } else {
            Ok(())
        };
        if self.temporary {
            let _ = fs::remove_dir_all(&self.instance.folder);
        }
        // Closing is not enough: a child that another thread is spawning right now may hold a copy of the file.
        let _ = self.lock.unlock();
    }
}

impl<B: LocalBroker> fmt::Debug for Server<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(B::NAME);
        shown.field("folder", &self.instance.folder).field("port", &self.port()).field("pid", &self.pid()).finish()
    }
}

//! A server that this process owns: started, stopped, killed, restarted, and ended for certain when dropped.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{Broker, Place};
use crate::files::{self, Log};
use crate::process::POLL;
use crate::processes::{self, Processes};
use crate::record::Record;
use crate::{Detached, Error, ports};

/// Far beyond what a start or a recovery takes, because a busy machine makes them slow and not wrong.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A server that this process owns and runs as its child.
///
/// Dropping it stops the server, and so does the end of this process in whatever way. [`Server::detach`] leaves it
/// running instead.
pub struct Server<B: Broker> {
    programs: B,
    place: Place,
    processes: Option<Processes>,
    lock: File,
    temporary: bool,
}

impl<B: Broker> Server<B> {
    /// Starts the server on the data in `folder`, empty at first, and waits until it serves clients.
    ///
    /// A server that an earlier owner left running there is stopped first. A living owner is [`Error::InUse`].
    pub fn start(programs: &B, folder: &Path) -> Result<Self, Error> {
        Self::start_in(programs, files::private_folder(folder)?, false)
    }

    /// Starts the server in a new folder that goes with it: when this is dropped, or when this process ends.
    pub fn temporary(programs: &B) -> Result<Self, Error> {
        Self::start_in(programs, files::new_temporary_folder()?, true)
    }

    fn start_in(programs: &B, folder: PathBuf, temporary: bool) -> Result<Self, Error> {
        let lock = files::lock(&folder)?;
        if let Some(record) = Record::read(&folder)? {
            // That it had to be killed does not matter any more.
            let _ = processes::end_recorded(&record, &folder);
            Record::remove(&folder)?;
        }
        let place = Place { ports: ports::reserve(B::PORTS, &lock)?, password: files::password(&folder)?, folder };
        let mut server = Server { programs: programs.clone(), place, processes: None, lock, temporary };
        server.programs.prepare(&server.place)?;
        match server.launch() {
            Ok(()) => Ok(server),
            Err(error) => {
                // The error names the log, so the folder stays.
                server.temporary = false;
                Err(error)
            }
        }
    }

    /// How clients reach it; the password is in it where there is one.
    pub fn url(&self) -> String {
        B::url(&self.place)
    }

    /// The port on 127.0.0.1 that clients use.
    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// The server's process, unless it was stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.processes.as_ref().and_then(Processes::pid)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.place.log()
    }

    /// Whether the server still runs; false after a stop and after a crash.
    pub fn is_running(&self) -> bool {
        self.processes.as_ref().is_some_and(Processes::is_running)
    }

    /// Shuts the server down in order and waits for its end. Stopping a stopped one is fine.
    pub fn stop(&mut self) -> Result<(), Error> {
        let stopped = self.processes.take().map_or(Ok(()), |processes| processes.stop(&self.place.log()));
        Record::remove(&self.place.folder)?;
        stopped
    }

    /// Kills the server without a word (SIGKILL), as a test of what a crash does.
    pub fn kill(&mut self) -> Result<(), Error> {
        let killed = self.processes.take().map_or(Ok(()), |mut processes| processes.kill());
        Record::remove(&self.place.folder)?;
        killed
    }

    /// Starts the server anew with the same ports and data; one that runs is stopped first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.launch()
    }

    /// Leaves the server running when this process ends; `None` when it does not run. [`crate::find_detached`] finds it
    /// again, [`crate::stop_detached`] ends it, and so would a later start in the same folder.
    pub fn detach(mut self) -> Option<Detached> {
        let processes = self.processes.take_if(|processes| processes.is_running())?;
        let pid = processes.pid()?;
        processes.release();
        self.temporary = false;
        Some(Detached { pid, url: self.url(), log_path: self.log_path() })
    }

    fn launch(&mut self) -> Result<(), Error> {
        let log = Log::open(self.place.log())?;
        let doomed = self.temporary.then_some(self.place.folder.as_path());
        let processes = Processes::spawn(&self.programs, &self.place, &log, doomed)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !B::answers(&self.place) {
            let why = if !processes.is_running() {
                "ended while starting".to_owned()
            } else if Instant::now() > deadline {
                format!("was not ready within {} s", START_TIMEOUT.as_secs())
            } else {
                thread::sleep(POLL);
                continue;
            };
            drop(processes);
            Record::remove(&self.place.folder)?;
            return Err(Error::NotReady { name: B::NAME, why, log_path: log.path.clone(), tail: log.tail() });
        }
        self.processes = Some(processes);
        Ok(())
    }
}

impl<B: Broker> Drop for Server<B> {
    fn drop(&mut self) {
        // Errors have nobody to go to here. Data that is thrown away need not be closed in order.
        let _ = if self.temporary {
            self.kill()
        } else if self.processes.is_some() {
            self.stop()
        } else {
            Ok(())
        };
        if self.temporary {
            let _ = fs::remove_dir_all(&self.place.folder);
        }
        // Closing would do, but a child that another thread is just spawning may still hold a copy of the file.
        let _ = self.lock.unlock();
    }
}

impl<B: Broker> fmt::Debug for Server<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(B::NAME);
        shown.field("folder", &self.place.folder).field("port", &self.port()).field("pid", &self.pid()).finish()
    }
}

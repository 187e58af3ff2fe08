//! A cluster that this process owns: started, stopped, killed, restarted, and stopped for certain when dropped.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::home::Home;
use crate::{ClusterOptions, Detached, Error, Programs, init, leftover, server, settings, url};

/// The number in the socket's name when there is no TCP port.
const SOCKET_PORT: u16 = 5432;

/// How a server is asked to end, after PostgreSQL's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until all clients have left.
    Smart,
    /// Rolls back what runs, disconnects everybody, writes a checkpoint.
    Fast,
    /// Ends at once, as in a crash: the next start recovers.
    Immediate,
}

impl Shutdown {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shutdown::Smart => "smart",
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        }
    }

    pub(crate) fn signal(self) -> &'static str {
        match self {
            Shutdown::Smart => "TERM",
            Shutdown::Fast => "INT",
            Shutdown::Immediate => "QUIT",
        }
    }

    /// How long the server gets to end.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Shutdown::Smart | Shutdown::Fast => Duration::from_secs(60),
            Shutdown::Immediate => Duration::from_secs(10),
        }
    }
}

/// A PostgreSQL cluster that this process owns and runs as its child.
///
/// Dropping it stops the server: fast, then harder. [`Cluster::detach`] leaves it running instead.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    home: Home,
    options: ClusterOptions,
    socket_dir: PathBuf,
    port: u16,
    password: String,
    child: Option<Child>,
    lock: File,
}

impl Cluster {
    /// Creates the cluster in `data` if it is not there yet, starts it and waits until it accepts connections.
    ///
    /// A server that an earlier, killed owner left running on this data is stopped first. A living owner is
    /// [`Error::InUse`]. Started as root, the server runs as an unprivileged account, and the data is kept elsewhere
    /// if that account cannot enter `data`: [`Cluster::data_dir`] says where.
    pub fn start(programs: &Programs, data: &Path, options: ClusterOptions) -> Result<Cluster, Error> {
        let home = Home::settle(programs, data)?;
        let lock = take_lock(&home)?;
        let recovering = leftover::settle(programs, &home)?;
        let programs = init::ensure(programs, &home, options.without_fsync())?;
        let socket_dir = home.socket_dir(&programs)?;
        let port = match options.port {
            None => SOCKET_PORT,
            Some(0) => free_port()?,
            Some(port) => port,
        };
        let password = fs::read_to_string(home.password()).map_err(Error::io("read", &home.password()))?;
        let mut cluster = Cluster { programs, home, options, socket_dir, port, password, child: None, lock };
        cluster.launch(recovering)?;
        Ok(cluster)
    }

    /// A URL for a database of this cluster, for the superuser: over loopback when a port was asked for, else the socket.
    pub fn url(&self, database: &str) -> String {
        match self.options.port {
            Some(_) => url::loopback(&self.password, self.port, database),
            None => url::socket(&self.socket_dir, self.port, database),
        }
    }

    /// Where the data really is; not always the folder that was asked for, see [`Cluster::start`].
    pub fn data_dir(&self) -> &Path {
        &self.home.base
    }

    /// The folder of the private socket.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The TCP port, and the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process, unless it was stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.home.log()
    }

    /// The programs that run this cluster, which follow the version it was made by.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Whether the server still runs; false after a stop and after a crash.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(server::exited(child), Ok(None)))
    }

    /// Shuts the server down and waits for its end. Stopping a stopped cluster is fine.
    pub fn stop(&mut self, mode: Shutdown) -> Result<(), Error> {
        if self.is_running()
            && let Some(child) = self.child.as_mut()
        {
            server::stop(child, &self.programs, &self.home, mode)?;
        }
        self.child = None;
        Ok(())
    }

    /// Kills the server's main process without a word (SIGKILL), as a test of what a crash does.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.child.take().map_or(Ok(()), |mut child| server::kill(&mut child))
    }

    /// Starts the server anew on the same address; one that runs is stopped fast first.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop(Shutdown::Fast)?;
        let recovering = leftover::settle(&self.programs, &self.home)?;
        self.launch(recovering)
    }

    /// Leaves the server running when this process ends. [`Detached::find`] finds it again, and a later
    /// [`Cluster::start`] on the same data would stop it as an orphan.
    pub fn detach(mut self) -> Option<Detached> {
        let child = self.child.take()?;
        Some(Detached::new(self.programs.clone(), self.home.clone(), child.id(), self.socket_dir.clone(), self.port))
    }

    fn launch(&mut self, recovering: bool) -> Result<(), Error> {
        let conf = self.home.pg().join(init::OUR_CONF);
        let text = settings::render(&self.options, &self.socket_dir, self.port)?;
        init::write_private(&conf, &text, &self.home.account)?;
        self.child = Some(server::launch(&self.programs, &self.home, recovering)?);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // An error has nobody to go to here; what is left of the server is an orphan that the next start stops.
        let _ = self.stop(Shutdown::Fast).or_else(|_| self.stop(Shutdown::Immediate)).or_else(|_| self.kill());
        // Closing would do, but a child that another thread is just spawning may still hold a copy of the file.
        let _ = self.lock.unlock();
    }
}

fn take_lock(home: &Home) -> Result<File, Error> {
    let path = home.lock();
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let file = options.open(&path).map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { data: home.base.clone() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
    }
}

/// A port that was free a moment ago, chosen by the system.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(Error::io("find a free port on", Path::new("127.0.0.1")))
}

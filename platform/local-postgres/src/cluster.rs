//! A cluster that this process owns: started, stopped, killed, restarted, and always stopped when dropped.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::cluster_paths::ClusterPaths;
use crate::guardian::Guardian;
use crate::{ClusterOptions, DetachedCluster, LocalPostgresError, Programs, init, previous_run, server, settings, url};

/// The number in the socket's name when no TCP port is used.
const SOCKET_PORT: u16 = 5432;

/// The shutdown mode, named as PostgreSQL names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Waits until all clients have disconnected.
    Smart,
    /// Rolls back open transactions, disconnects all clients and writes a checkpoint.
    Fast,
    /// Stops at once, as in a crash: the next start recovers.
    Immediate,
}

impl ShutdownMode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ShutdownMode::Smart => "smart",
            ShutdownMode::Fast => "fast",
            ShutdownMode::Immediate => "immediate",
        }
    }

    pub(crate) fn signal(self) -> &'static str {
        match self {
            ShutdownMode::Smart => "TERM",
            ShutdownMode::Fast => "INT",
            ShutdownMode::Immediate => "QUIT",
        }
    }

    /// How long to wait for the server to stop.
    pub(crate) fn stop_timeout(self) -> Duration {
        match self {
            ShutdownMode::Smart | ShutdownMode::Fast => Duration::from_secs(60),
            ShutdownMode::Immediate => Duration::from_secs(10),
        }
    }
}

/// A PostgreSQL cluster that this process owns and runs as its child.
///
/// Dropping it stops the server: first fast, then immediately, then by SIGKILL. [`Cluster::detach`] leaves it running
/// instead.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    paths: ClusterPaths,
    options: ClusterOptions,
    socket_dir: PathBuf,
    port: u16,
    password: String,
    child: Option<Child>,
    /// Stops the server if this process ends without doing so.
    guardian: Option<Guardian>,
    lock: File,
}

impl Cluster {
    /// Creates the cluster in `data` if it does not exist yet, starts it and waits until it accepts connections.
    ///
    /// A server that an earlier, killed owner left running on this data is stopped first. Fails with [`LocalPostgresError::InUse`]
    /// if the owner is alive. Started as root, the server runs as an unprivileged account, and the data is kept
    /// elsewhere if that account cannot enter `data`: [`Cluster::data_dir`] returns the folder in use and
    /// [`Cluster::closed_folder`] the one that is closed.
    ///
    /// The server is stopped when this process ends, however that happens.
    pub fn start(programs: &Programs, data: &Path, options: ClusterOptions) -> Result<Cluster, LocalPostgresError> {
        let paths = ClusterPaths::resolve(programs, data)?;
        let lock = take_lock(&paths)?;
        let recovering = previous_run::clean_up(programs, &paths)?;
        let programs = init::ensure(programs, &paths, options.without_fsync())?;
        let socket_dir = paths.socket_dir(&programs)?;
        let port = match options.port {
            None => SOCKET_PORT,
            Some(0) => free_port()?,
            Some(port) => port,
        };
        let password =
            fs::read_to_string(paths.password()).map_err(LocalPostgresError::io("read", &paths.password()))?;
        let (child, guardian) = (None, None);
        let mut cluster = Cluster { programs, paths, options, socket_dir, port, password, child, guardian, lock };
        cluster.launch(recovering)?;
        Ok(cluster)
    }

    /// Returns a superuser URL for a database of this cluster: over loopback if it has a port, otherwise the socket.
    pub fn url(&self, database: &str) -> String {
        match self.options.port {
            Some(_) => url::loopback(&self.password, self.port, database),
            None => url::socket(&self.socket_dir, self.port, database),
        }
    }

    /// The folder that holds the data; not always the requested one, see [`Cluster::start`].
    pub fn data_dir(&self) -> &Path {
        &self.paths.base
    }

    /// The requested folder, if the server's account cannot enter it and the data is therefore kept elsewhere.
    pub fn closed_folder(&self) -> Option<&Path> {
        self.paths.closed.as_deref()
    }

    /// The folder of the private socket.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The TCP port, and the number in the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id, unless it was stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.paths.log()
    }

    /// The programs that run this cluster; their version is that of the cluster.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Whether the server is still running; false after a stop and after a crash.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(server::exited(child), Ok(None)))
    }

    /// How the server ended, if it ended unexpectedly; `None` while it runs and after a stop.
    pub fn ended(&mut self) -> Option<String> {
        match server::exited(self.child.as_mut()?) {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Shuts the server down and waits until it has ended. Does nothing if it is already stopped.
    pub fn stop(&mut self, mode: ShutdownMode) -> Result<(), LocalPostgresError> {
        if self.is_running()
            && let Some(child) = self.child.as_mut()
        {
            server::stop(child, &self.programs, &self.paths, mode)?;
        }
        self.child = None;
        self.guardian = None;
        Ok(())
    }

    /// Kills the server's main process with SIGKILL, to test crashes.
    pub fn kill(&mut self) -> Result<(), LocalPostgresError> {
        self.child.take().map_or(Ok(()), |mut child| server::kill(&mut child))?;
        self.guardian = None;
        Ok(())
    }

    /// Restarts the server on the same address; a running server is first stopped fast.
    pub fn restart(&mut self) -> Result<(), LocalPostgresError> {
        self.stop(ShutdownMode::Fast)?;
        let recovering = previous_run::clean_up(&self.programs, &self.paths)?;
        self.launch(recovering)
    }

    /// Leaves the server running when this process ends. [`DetachedCluster::find`] finds it again, and a later
    /// [`Cluster::start`] on the same data would stop it as an orphan.
    pub fn detach(mut self) -> Option<DetachedCluster> {
        let child = self.child.take()?;
        Some(DetachedCluster::new(
            self.programs.clone(),
            self.paths.clone(),
            child.id(),
            self.socket_dir.clone(),
            self.port,
        ))
    }

    fn launch(&mut self, recovering: bool) -> Result<(), LocalPostgresError> {
        let conf = self.paths.pg().join(init::OUR_CONF);
        let text = settings::render(&self.options, &self.socket_dir, self.port)?;
        init::write_private(&conf, &text, &self.paths.account)?;
        let (child, guardian) = server::launch(&self.programs, &self.paths, recovering)?;
        (self.child, self.guardian) = (Some(child), Some(guardian));
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Drop cannot report an error; if the server is still running, the next start stops it as an orphan.
        let _ = self.stop(ShutdownMode::Fast).or_else(|_| self.stop(ShutdownMode::Immediate)).or_else(|_| self.kill());
        // Closing would be enough, but a child that another thread is just spawning may hold a copy of the file.
        let _ = self.lock.unlock();
    }
}

fn take_lock(paths: &ClusterPaths) -> Result<File, LocalPostgresError> {
    let path = paths.lock();
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let file = options.open(&path).map_err(LocalPostgresError::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LocalPostgresError::InUse { data: paths.base.clone() }),
        Err(TryLockError::Error(error)) => Err(LocalPostgresError::io("lock", &path)(error)),
    }
}

/// Returns a port chosen by the system that was free a moment ago.
fn free_port() -> Result<u16, LocalPostgresError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(LocalPostgresError::io("find a free port on", Path::new("127.0.0.1")))
}

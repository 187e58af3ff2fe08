//! The leftovers of an earlier run: a server whose owner was killed, or only its files.
//!
//! Called with the data folder's lock held, so a server that still runs here has no owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster_paths::ClusterPaths;
use crate::pidfile::PidFile;
use crate::{LocalPostgresError, Programs, ShutdownMode};

const BACKENDS_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops an orphaned server and clears stale lock files. Returns whether the last shutdown was unclean.
pub(crate) fn clean_up(programs: &Programs, paths: &ClusterPaths) -> Result<bool, LocalPostgresError> {
    let Some(file) = PidFile::read(&paths.pg()) else {
        return Ok(false);
    };
    if file.is_listening() {
        let stopped =
            stop(programs, paths, ShutdownMode::Fast).or_else(|_| stop(programs, paths, ShutdownMode::Immediate));
        // Its guardian may have stopped it already, and then nothing is left to stop.
        let is_listening = || PidFile::read(&paths.pg()).is_some_and(|file| file.is_listening());
        return stopped.or_else(|error| if is_listening() { Err(error) } else { Ok(()) }).map(|()| true);
    }
    remove_if_pid_was_reused(paths, &file)?;
    Ok(true)
}

/// Stops the server of this paths, regardless of which process started it, and waits until it has ended.
pub(crate) fn stop(programs: &Programs, paths: &ClusterPaths, mode: ShutdownMode) -> Result<(), LocalPostgresError> {
    let mut command = paths.account.command(&programs.program("pg_ctl"));
    command.arg("stop").arg("-D").arg(paths.pg()).args(["-m", mode.name(), "-w", "-t"]);
    command.arg(mode.stop_timeout().as_secs().to_string());
    crate::init::run(
        "pg_ctl stop",
        command.output().map_err(LocalPostgresError::io("run", &programs.program("pg_ctl")))?,
    )
}

/// PostgreSQL recognises a stale file unless its pid now belongs to another process, which is common after a container
/// restarts. Removing the file also removes PostgreSQL's guard against surviving backends, so it is done only where
/// /proc shows that no process at all works in the cluster's folder.
fn remove_if_pid_was_reused(paths: &ClusterPaths, file: &PidFile) -> Result<(), LocalPostgresError> {
    let pg = paths.pg();
    let pid_lives = Path::new("/proc").join(file.pid.to_string()).exists();
    if !pid_lives || process_remains_in(&pg) {
        return Ok(());
    }
    let socket_lock = file.socket().map(|socket| PathBuf::from(format!("{}.lock", socket.display())));
    for path in [Some(pg.join("postmaster.pid")), socket_lock].into_iter().flatten() {
        if path.exists() {
            fs::remove_file(&path).map_err(LocalPostgresError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Waits a moment for the backends of a dead server to end, then returns whether a process still works in the folder.
fn process_remains_in(folder: &Path) -> bool {
    let deadline = Instant::now() + BACKENDS_TIMEOUT;
    while has_process_in(folder) {
        if Instant::now() > deadline {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether any process has this folder as its working folder, as every PostgreSQL process of a cluster does.
fn has_process_in(folder: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}

//! What an earlier run left behind: a server whose owner was killed, or only its files.
//!
//! Called with the data folder's lock held, so whatever still runs here has no owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::Home;
use crate::pidfile::PidFile;
use crate::{Error, Programs, Shutdown};

const BACKENDS_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops an orphaned server and clears stale lock files. Returns whether the last shutdown was unclean.
pub(crate) fn settle(programs: &Programs, home: &Home) -> Result<bool, Error> {
    let Some(file) = PidFile::read(&home.pg()) else {
        return Ok(false);
    };
    if file.answers() {
        stop(programs, home, Shutdown::Fast).or_else(|_| stop(programs, home, Shutdown::Immediate))?;
        return Ok(true);
    }
    remove_if_pid_was_reused(home, &file)?;
    Ok(true)
}

/// Stops the server of this home, whoever started it, and waits for its end.
pub(crate) fn stop(programs: &Programs, home: &Home, mode: Shutdown) -> Result<(), Error> {
    let mut command = home.account.command(&programs.program("pg_ctl"));
    command.arg("stop").arg("-D").arg(home.pg()).args(["-m", mode.name(), "-w", "-t"]);
    command.arg(mode.patience().as_secs().to_string());
    crate::init::run("pg_ctl stop", command.output().map_err(Error::io("run", &programs.program("pg_ctl")))?)
}

/// PostgreSQL sees through a stale file by itself unless its pid has since gone to another process, which is common
/// after a container restarts. Removing the file also removes PostgreSQL's guard against surviving backends, so it is
/// done only where /proc shows that no process at all works in the cluster's folder.
fn remove_if_pid_was_reused(home: &Home, file: &PidFile) -> Result<(), Error> {
    let pg = home.pg();
    let pid_lives = Path::new("/proc").join(file.pid.to_string()).exists();
    if !pid_lives || someone_stays_in(&pg) {
        return Ok(());
    }
    let socket_lock = file.socket().map(|socket| PathBuf::from(format!("{}.lock", socket.display())));
    for path in [Some(pg.join("postmaster.pid")), socket_lock].into_iter().flatten() {
        if path.exists() {
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Backends of a dead server end by themselves within moments; gives them those before it says that somebody is there.
fn someone_stays_in(folder: &Path) -> bool {
    let deadline = Instant::now() + BACKENDS_TIMEOUT;
    while someone_works_in(folder) {
        if Instant::now() > deadline {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether any process has this folder as its working folder, as every PostgreSQL process of a cluster does.
fn someone_works_in(folder: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}

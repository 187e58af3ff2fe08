//! One run of the `postgres` program: started as our child, watched until it accepts connections, and stopped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster_paths::ClusterPaths;
use crate::guardian::Guardian;
use crate::pidfile::PidFile;
use crate::{LocalPostgresError, Programs, ShutdownMode};

const LOG_MAX_BYTES: u64 = 16 * 1024 * 1024;
const TAIL_LINES: usize = 20;
const POLL: Duration = Duration::from_millis(10);
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// After a crash the server first replays its log; stopping it early would only make it start over.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(600);
/// Backends of a killed server notice its death within moments; until then a new server refuses to start.
const OLD_SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts `postgres`, with a guardian from its first moment, and returns when it accepts connections.
pub(crate) fn launch(
    programs: &Programs,
    paths: &ClusterPaths,
    recovering: bool,
) -> Result<(Child, Guardian), LocalPostgresError> {
    let began = Instant::now();
    let timeout = if recovering { RECOVERY_TIMEOUT } else { START_TIMEOUT };
    loop {
        let mut attempt = Attempt::spawn(programs, paths)?;
        match attempt.wait_until_ready(began + timeout) {
            Ok(()) => return Ok((attempt.child, attempt.guardian)),
            Err(Failure::Ended(status)) => {
                let tail = attempt.tail();
                // Backends of a killed server, or a server that an earlier owner's guardian is stopping at this moment.
                let old_server = tail.contains("pre-existing shared memory block")
                    || tail.contains("lock file \"postmaster.pid\" already exists");
                if !(old_server && began.elapsed() < OLD_SERVER_TIMEOUT) {
                    return Err(attempt.error(format!("ended while starting ({status})")));
                }
                thread::sleep(POLL * 10);
            }
            Err(Failure::TimedOut) => {
                stop(&mut attempt.child, programs, paths, ShutdownMode::Immediate)
                    .or_else(|_| kill(&mut attempt.child))?;
                return Err(attempt.error(format!("was not ready within {} s", timeout.as_secs())));
            }
            Err(Failure::Io(error)) => return Err(error),
        }
    }
}

/// Asks our child to shut down and waits until it has ended. The caller guarantees that it has not been waited for yet.
pub(crate) fn stop(
    child: &mut Child,
    programs: &Programs,
    paths: &ClusterPaths,
    mode: ShutdownMode,
) -> Result<(), LocalPostgresError> {
    let pid = child.id();
    // std can send no signal but SIGKILL; pg_ctl can, and it is always available.
    let mut command = paths.account.command(&programs.program("pg_ctl"));
    command.args(["kill", mode.signal(), &pid.to_string()]);
    let sent = command.output().map_err(LocalPostgresError::io("run", &programs.program("pg_ctl")))?;
    if !sent.status.success() && exited(child)?.is_none() {
        return crate::init::run("pg_ctl kill", sent);
    }
    let deadline = Instant::now() + mode.stop_timeout();
    while exited(child)?.is_none() {
        if Instant::now() > deadline {
            return Err(LocalPostgresError::NotStopped { pid, waited_s: mode.stop_timeout().as_secs() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Sends SIGKILL to the postmaster and reaps it.
pub(crate) fn kill(child: &mut Child) -> Result<(), LocalPostgresError> {
    child.kill().and_then(|()| child.wait()).map(drop).map_err(LocalPostgresError::io("kill", Path::new("postgres")))
}

/// The exit status of our child if it has ended.
pub(crate) fn exited(child: &mut Child) -> Result<Option<ExitStatus>, LocalPostgresError> {
    child.try_wait().map_err(LocalPostgresError::io("wait for", Path::new("postgres")))
}

enum Failure {
    Ended(ExitStatus),
    TimedOut,
    Io(LocalPostgresError),
}

struct Attempt<'a> {
    child: Child,
    guardian: Guardian,
    paths: &'a ClusterPaths,
    log_start: u64,
}

impl Attempt<'_> {
    fn spawn<'a>(programs: &Programs, paths: &'a ClusterPaths) -> Result<Attempt<'a>, LocalPostgresError> {
        let (log, log_start) = open_log(&paths.log())?;
        let also_log = log.try_clone().map_err(LocalPostgresError::io("open", &paths.log()))?;
        let program = programs.program("postgres");
        let mut command = paths.account.command(&program);
        command.arg("-D").arg(paths.pg()).stdout(log).stderr(also_log);
        // A process group of its own: the terminal's Ctrl-C is for us, and we stop the server in order.
        command.process_group(0);
        let mut child = command.spawn().map_err(LocalPostgresError::io("run", &program))?;
        match Guardian::start(&paths.account, &paths.pg(), child.id()) {
            Ok(guardian) => Ok(Attempt { child, guardian, paths, log_start }),
            Err(error) => {
                kill(&mut child)?;
                Err(error)
            }
        }
    }

    fn wait_until_ready(&mut self, deadline: Instant) -> Result<(), Failure> {
        loop {
            let file = PidFile::read(&self.paths.pg());
            if file.is_some_and(|file| file.pid == self.child.id() && file.ready) {
                return Ok(());
            }
            if let Some(status) = exited(&mut self.child).map_err(Failure::Io)? {
                return Err(Failure::Ended(status));
            }
            if Instant::now() > deadline {
                return Err(Failure::TimedOut);
            }
            thread::sleep(POLL);
        }
    }

    fn error(&self, why: String) -> LocalPostgresError {
        LocalPostgresError::NotReady { why, log_path: self.paths.log(), tail: self.tail() }
    }

    /// The last lines that this attempt wrote to the log.
    fn tail(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(self.paths.log()).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.log_start))?;
            file.take(LOG_MAX_BYTES).read_to_end(&mut text)
        });
        if read.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

/// Opens the log for appending and returns it with its current length; a log that has grown too large is emptied first.
fn open_log(path: &Path) -> Result<(File, u64), LocalPostgresError> {
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(LocalPostgresError::io("open", path))?;
    let length = fs::metadata(path).map_err(LocalPostgresError::io("read", path))?.len();
    if length > LOG_MAX_BYTES {
        file.set_len(0).map_err(LocalPostgresError::io("empty", path))?;
        return Ok((file, 0));
    }
    Ok((file, length))
}

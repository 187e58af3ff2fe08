//! One run of the `postgres` program: started as our child, watched until it accepts connections, ended.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::Home;
use crate::pidfile::PidFile;
use crate::{Error, Programs, Shutdown};

const LOG_MAX_BYTES: u64 = 16 * 1024 * 1024;
const TAIL_LINES: usize = 20;
const POLL: Duration = Duration::from_millis(10);
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// After a crash the server first replays its log; ending that early would only make it start over.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(600);
/// Backends of a killed server notice its death within moments; until then a new one refuses to start.
const OLD_BACKENDS_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts `postgres` and returns when it accepts connections.
pub(crate) fn launch(programs: &Programs, home: &Home, recovering: bool) -> Result<Child, Error> {
    let began = Instant::now();
    let timeout = if recovering { RECOVERY_TIMEOUT } else { START_TIMEOUT };
    loop {
        let mut attempt = Attempt::spawn(programs, home)?;
        match attempt.wait_until_ready(began + timeout) {
            Ok(()) => return Ok(attempt.child),
            Err(Failure::Ended(status)) => {
                let tail = attempt.tail();
                let old_backends = tail.contains("pre-existing shared memory block");
                if !(old_backends && began.elapsed() < OLD_BACKENDS_TIMEOUT) {
                    return Err(attempt.error(format!("ended while starting ({status})")));
                }
                thread::sleep(POLL * 10);
            }
            Err(Failure::TimedOut) => {
                stop(&mut attempt.child, programs, home, Shutdown::Immediate).or_else(|_| kill(&mut attempt.child))?;
                return Err(attempt.error(format!("was not ready within {} s", timeout.as_secs())));
            }
            Err(Failure::Io(error)) => return Err(error),
        }
    }
}

/// Asks our child to shut down and waits for its end. The caller knows that it has not been waited for yet.
pub(crate) fn stop(child: &mut Child, programs: &Programs, home: &Home, mode: Shutdown) -> Result<(), Error> {
    let pid = child.id();
    // std cannot send signals other than SIGKILL; pg_ctl can, and it is there.
    let mut command = home.account.command(&programs.program("pg_ctl"));
    command.args(["kill", mode.signal(), &pid.to_string()]);
    let sent = command.output().map_err(Error::io("run", &programs.program("pg_ctl")))?;
    if !sent.status.success() && exited(child)?.is_none() {
        return crate::init::run("pg_ctl kill", sent);
    }
    let deadline = Instant::now() + mode.patience();
    while exited(child)?.is_none() {
        if Instant::now() > deadline {
            return Err(Error::NotStopped { pid, waited_s: mode.patience().as_secs() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// SIGKILL to the postmaster, and its funeral.
pub(crate) fn kill(child: &mut Child) -> Result<(), Error> {
    child.kill().and_then(|()| child.wait()).map(drop).map_err(Error::io("kill", Path::new("postgres")))
}

/// The exit status of our child if it has ended.
pub(crate) fn exited(child: &mut Child) -> Result<Option<ExitStatus>, Error> {
    child.try_wait().map_err(Error::io("wait for", Path::new("postgres")))
}

enum Failure {
    Ended(ExitStatus),
    TimedOut,
    Io(Error),
}

struct Attempt<'a> {
    child: Child,
    home: &'a Home,
    log_start: u64,
}

impl Attempt<'_> {
    fn spawn<'a>(programs: &Programs, home: &'a Home) -> Result<Attempt<'a>, Error> {
        let (log, log_start) = open_log(&home.log())?;
        let also_log = log.try_clone().map_err(Error::io("open", &home.log()))?;
        let program = programs.program("postgres");
        let mut command = home.account.command(&program);
        command.arg("-D").arg(home.pg()).stdout(log).stderr(also_log);
        // Its own group: the terminal's Ctrl-C is for us, and we stop it in order.
        command.process_group(0);
        let child = command.spawn().map_err(Error::io("run", &program))?;
        Ok(Attempt { child, home, log_start })
    }

    fn wait_until_ready(&mut self, deadline: Instant) -> Result<(), Failure> {
        loop {
            let file = PidFile::read(&self.home.pg());
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

    fn error(&self, why: String) -> Error {
        Error::NotReady { why, log_path: self.home.log(), tail: self.tail() }
    }

    /// The last lines that this attempt wrote to the log.
    fn tail(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(self.home.log()).and_then(|mut file| {
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

/// The log for appending and its length so far; emptied first when it has grown too large.
fn open_log(path: &Path) -> Result<(File, u64), Error> {
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(Error::io("open", path))?;
    let length = fs::metadata(path).map_err(Error::io("read", path))?.len();
    if length > LOG_MAX_BYTES {
        file.set_len(0).map_err(Error::io("empty", path))?;
        return Ok((file, 0));
    }
    Ok((file, length))
}

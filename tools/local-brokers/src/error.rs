//! Errors, each with what to do about it. Written by hand, because this crate has no dependencies.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a private server could not be found, started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum LocalBrokerError {
    /// A program or a library is not installed, or too old.
    Missing {
        /// The server's name.
        name: &'static str,
        /// What was searched for, where, and what was found instead.
        what: String,
        /// How to get it.
        install: &'static str,
    },
    /// A file or folder could not be read, written or created, or a program could not be run.
    Io {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A program that prepares the server ended with an error.
    ProgramFailed {
        /// Its name.
        program: String,
        /// What it printed.
        output: String,
    },
    /// Another process owns this folder.
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder in a shared location belongs to another user.
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// All candidate ports are taken.
    NoPort,
    /// The server ended, or was not ready in time.
    NotReady {
        /// The server's name.
        name: &'static str,
        /// What happened.
        why: String,
        /// Where its whole log is.
        log_path: PathBuf,
        /// The log's last lines of this start.
        tail: String,
    },
    /// The server did not stop in time and was killed.
    Killed {
        /// Its process.
        pid: u32,
        /// How long it had to stop, in seconds.
        waited_s: u64,
        /// Where its log is.
        log_path: PathBuf,
    },
}

impl LocalBrokerError {
    /// Pairs an I/O error with what was being done to which path: `map_err(LocalBrokerError::io("create", path))`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LocalBrokerError {
        let path = path.to_path_buf();
        move |source| LocalBrokerError::Io { doing, path, source }
    }
}

impl fmt::Display for LocalBrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalBrokerError::Missing { name, what, install } => {
                write!(
                    f,
                    "{name} is not installed: {what}. {install}; on Debian, `cargo xtask services up` installs it."
                )
            }
            LocalBrokerError::Io { doing, path, source } => write!(f, "could not {doing} {}: {source}", path.display()),
            LocalBrokerError::ProgramFailed { program, output } => {
                write!(f, "{program} failed:\n{}", output.trim_end())
            }
            LocalBrokerError::InUse { folder } => write!(
                f,
                "{} is in use by another running process. Stop that one, or choose another folder.",
                folder.display()
            ),
            LocalBrokerError::ForeignFolder { folder } => write!(
                f,
                "{} belongs to another user, so it is not safe to use. Remove it, or set TMPDIR to another folder.",
                folder.display()
            ),
            LocalBrokerError::NoPort => {
                write!(f, "no free port was found on 127.0.0.1. Stop servers that are not needed.")
            }
            LocalBrokerError::NotReady { name, why, log_path, tail } => {
                write!(f, "{name} {why}. Its log is {}", log_path.display())?;
                if tail.is_empty() { write!(f, " (empty).") } else { write!(f, " and ends with:\n{tail}") }
            }
            LocalBrokerError::Killed { pid, waited_s, log_path } => write!(
                f,
                "the server (pid {pid}) did not stop within {waited_s} s and was killed. Its log is {}.",
                log_path.display()
            ),
        }
    }
}

// Without a source: the text contains it already, and a printed chain of causes would repeat it.
impl std::error::Error for LocalBrokerError {}

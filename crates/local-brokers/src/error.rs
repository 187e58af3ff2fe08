//! What can go wrong, each with what to do about it. Written by hand: this crate has no dependencies.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a private server could not be found, started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A program or a library is not installed, or too old.
    Missing {
        /// The server's name.
        name: &'static str,
        /// What was looked for, where, and what was found instead.
        what: String,
        /// How to get it.
        install: &'static str,
    },
    /// A file or folder could not be read, written or created, or a program not be run.
    Io {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// To which path.
        path: PathBuf,
        /// The system's answer.
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
    /// A folder in a shared place belongs to somebody else.
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// All ports that we try are taken.
    NoPort,
    /// The server ended, or was not ready in time.
    NotReady {
        /// The server's name.
        name: &'static str,
        /// What was seen.
        why: String,
        /// Where its whole log is.
        log_path: PathBuf,
        /// The log's last lines of this start.
        tail: String,
    },
    /// The server did not stop in order and was killed.
    Killed {
        /// Its process.
        pid: u32,
        /// How long it had been given.
        waited_s: u64,
        /// Where its log is.
        log_path: PathBuf,
    },
}

impl Error {
    /// Pairs an I/O error with what was being done to which path: `map_err(Error::io("create", path))`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { doing, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing { name, what, install } => {
                write!(
                    f,
                    "{name} is not installed: {what}. {install}; on Debian, `cargo xtask services up` installs it."
                )
            }
            Error::Io { doing, path, source } => write!(f, "could not {doing} {}: {source}", path.display()),
            Error::ProgramFailed { program, output } => write!(f, "{program} failed:\n{}", output.trim_end()),
            Error::InUse { folder } => write!(
                f,
                "{} is in use by another running process. Stop that one, or choose another folder.",
                folder.display()
            ),
            Error::ForeignFolder { folder } => write!(
                f,
                "{} exists and does not belong to us, so it is not safe to use. Remove it, or set TMPDIR to another place.",
                folder.display()
            ),
            Error::NoPort => write!(f, "no free port was found on 127.0.0.1; stop servers that nobody needs."),
            Error::NotReady { name, why, log_path, tail } => {
                write!(f, "{name} {why}. Its log is {}", log_path.display())?;
                if tail.is_empty() { write!(f, " (empty).") } else { write!(f, " and ends with:\n{tail}") }
            }
            Error::Killed { pid, waited_s, log_path } => write!(
                f,
                "the server (pid {pid}) did not stop within {waited_s} s and was killed. Its log is {}.",
                log_path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

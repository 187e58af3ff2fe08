//! What can go wrong, each with what to do about it. Written by hand: this crate has no dependencies.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a private PostgreSQL could not be found, made, started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No folder with `initdb`, `postgres` and `pg_ctl` of a supported version was found.
    ProgramsMissing {
        /// What was found and why it was not good enough; empty when nothing was found.
        rejected: Vec<String>,
    },
    /// `ONCEWARD_PG_BIN` names a folder that cannot be used.
    ProgramsUnusable {
        /// The folder.
        bin_dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file or folder could not be read, written or created.
    Io {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// To which path.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A PostgreSQL program ended with an error.
    ProgramFailed {
        /// Its name.
        program: String,
        /// What it printed.
        output: String,
    },
    /// Another process owns this data folder.
    InUse {
        /// The data folder.
        data: PathBuf,
    },
    /// The cluster was made by another major version than the programs found.
    OtherVersion {
        /// The data folder.
        data: PathBuf,
        /// The major version that made it.
        made_by: String,
        /// The major version found.
        found: u32,
    },
    /// We run as root and the machine has neither a `postgres` nor a `nobody` account.
    NoAccount,
    /// A folder in a shared place belongs to somebody else.
    ForeignFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A setting that cannot be written to a configuration file.
    BadSetting {
        /// Its name.
        name: String,
    },
    /// The server ended, or was not ready in time.
    NotReady {
        /// What was seen.
        why: String,
        /// Where its whole log is.
        log_path: PathBuf,
        /// The log's last lines of this start.
        tail: String,
    },
    /// The server did not stop in time.
    NotStopped {
        /// Its process.
        pid: u32,
        /// How long we waited.
        waited_s: u64,
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
            Error::ProgramsMissing { rejected } => {
                writeln!(
                    f,
                    "PostgreSQL's server programs (initdb, postgres, pg_ctl; version 15 or newer) were not found."
                )?;
                for line in rejected {
                    writeln!(f, "  {line}")?;
                }
                writeln!(f, "Install them:")?;
                writeln!(f, "  Debian, Ubuntu:  apt-get install postgresql")?;
                writeln!(f, "  Fedora, RHEL:    dnf install postgresql-server")?;
                writeln!(f, "  macOS:           brew install postgresql@17")?;
                write!(f, "or set ONCEWARD_PG_BIN to the folder that holds them.")
            }
            Error::ProgramsUnusable { bin_dir, why } => {
                write!(
                    f,
                    "ONCEWARD_PG_BIN is {}: {why}. Point it at a folder with initdb, postgres and pg_ctl, or unset it.",
                    bin_dir.display()
                )
            }
            Error::Io { doing, path, source } => write!(f, "could not {doing} {}: {source}", path.display()),
            Error::ProgramFailed { program, output } => {
                write!(f, "{program} failed:\n{}", output.trim_end())
            }
            Error::InUse { data } => write!(
                f,
                "{} is in use by another running process. Stop that one, or choose another data folder.",
                data.display()
            ),
            Error::OtherVersion { data, made_by, found } => write!(
                f,
                "the cluster in {} was made by PostgreSQL {made_by} and only {found} is installed. Install PostgreSQL {made_by} \
                 (or point ONCEWARD_PG_BIN at it), upgrade the cluster with pg_upgrade, or choose another data folder.",
                data.display()
            ),
            Error::NoAccount => write!(
                f,
                "PostgreSQL refuses to run as root and there is no `postgres` or `nobody` account to run it as. \
                 Create one (useradd --system postgres) or start as an ordinary user."
            ),
            Error::ForeignFolder { path } => write!(
                f,
                "{} exists and does not belong to us, so it is not safe to use. Remove it or choose another data folder.",
                path.display()
            ),
            Error::BadSetting { name } => write!(
                f,
                "the PostgreSQL setting {name:?} cannot be written: a name is letters, digits, `_` and `.`, and a value is one line."
            ),
            Error::NotReady { why, log_path, tail } => {
                write!(f, "PostgreSQL {why}. Its log is {}", log_path.display())?;
                if tail.is_empty() { write!(f, " (empty).") } else { write!(f, " and ends with:\n{tail}") }
            }
            Error::NotStopped { pid, waited_s } => write!(
                f,
                "PostgreSQL (pid {pid}) did not stop within {waited_s} s; a stricter shutdown mode ends it sooner."
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

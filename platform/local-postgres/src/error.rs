//! Everything that can go wrong, each with what to do about it. Written by hand because this crate has no dependencies.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a private PostgreSQL could not be found, created, started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum LocalPostgresError {
    /// No folder with `initdb`, `postgres` and `pg_ctl` of a supported version was found.
    ProgramsMissing {
        /// The folders that were found, each with the reason for its rejection; empty when nothing was found.
        rejected: Vec<String>,
    },
    /// `ONCEWARD_PG_BIN` names a folder that cannot be used.
    ProgramsUnusable {
        /// The folder.
        bin_dir: PathBuf,
        /// The problem with it.
        why: String,
    },
    /// A file or folder could not be read, written or created.
    Io {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A PostgreSQL program ended with an error.
    ProgramFailed {
        /// Its name.
        program: String,
        /// Its output.
        output: String,
    },
    /// Another process owns this data folder.
    InUse {
        /// The data folder.
        data: PathBuf,
    },
    /// The cluster was created by another major version than that of the programs found.
    OtherVersion {
        /// The data folder.
        data: PathBuf,
        /// The major version that created it.
        created_by: String,
        /// The major version found.
        found: u32,
    },
    /// We run as root and the machine has neither a `postgres` nor a `nobody` account.
    NoAccount,
    /// The data folder's path exists but is not a folder.
    NotAFolder {
        /// Its path.
        path: PathBuf,
    },
    /// A folder in a shared place belongs to another account.
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
        /// The observed failure.
        why: String,
        /// The path of the complete log.
        log_path: PathBuf,
        /// The last log lines of this start.
        tail: String,
    },
    /// The server did not stop in time.
    NotStopped {
        /// Its process id.
        pid: u32,
        /// How long we waited, in seconds.
        waited_s: u64,
    },
}

impl LocalPostgresError {
    /// Adds the attempted action and the path to an I/O error: `map_err(LocalPostgresError::io("create", path))`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LocalPostgresError {
        let path = path.to_path_buf();
        move |source| LocalPostgresError::Io { doing, path, source }
    }
}

impl fmt::Display for LocalPostgresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalPostgresError::ProgramsMissing { rejected } => {
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
            LocalPostgresError::ProgramsUnusable { bin_dir, why } => {
                write!(
                    f,
                    "ONCEWARD_PG_BIN is {}: {why}. Point it at a folder with initdb, postgres and pg_ctl, or unset it.",
                    bin_dir.display()
                )
            }
            LocalPostgresError::Io { doing, path, source } => {
                write!(f, "could not {doing} {}: {source}", path.display())
            }
            LocalPostgresError::ProgramFailed { program, output } => {
                write!(f, "{program} failed:\n{}", output.trim_end())
            }
            LocalPostgresError::InUse { data } => write!(
                f,
                "{} is in use by another running process. Stop that one, or choose another data folder.",
                data.display()
            ),
            LocalPostgresError::OtherVersion { data, created_by, found } => write!(
                f,
                "the cluster in {} was created by PostgreSQL {created_by} and only {found} is installed. Install PostgreSQL {created_by} \
                 (or point ONCEWARD_PG_BIN at it), upgrade the cluster with pg_upgrade, or choose another data folder.",
                data.display()
            ),
            LocalPostgresError::NoAccount => write!(
                f,
                "PostgreSQL refuses to run as root and there is no `postgres` or `nobody` account to run it as. \
                 Create one (useradd --system postgres) or start as an ordinary user."
            ),
            LocalPostgresError::NotAFolder { path } => write!(
                f,
                "{} is a file, not a folder. Choose another data folder, or move the file away.",
                path.display()
            ),
            LocalPostgresError::ForeignFolder { path } => write!(
                f,
                "{} exists and does not belong to us, so it is not safe to use. Remove it or choose another data folder.",
                path.display()
            ),
            LocalPostgresError::BadSetting { name } => write!(
                f,
                "the PostgreSQL setting {name:?} cannot be written: a name is letters, digits, `_` and `.`, and a value is one line."
            ),
            LocalPostgresError::NotReady { why, log_path, tail } => {
                write!(f, "PostgreSQL {why}. Its log is {}", log_path.display())?;
                if tail.is_empty() { write!(f, " (empty).") } else { write!(f, " and ends with:\n{tail}") }
            }
            LocalPostgresError::NotStopped { pid, waited_s } => write!(
                f,
                "PostgreSQL (pid {pid}) did not stop within {waited_s} s; a stricter shutdown mode ends it sooner."
            ),
        }
    }
}

// Without a source: the text already contains it, so a printed chain of causes would repeat it.
impl std::error::Error for LocalPostgresError {}

//! Why a command ends early. Two kinds, because they have two exit codes.

use std::fmt::{self, Display};

/// A command's error.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line was not understood.
    Usage(String),
    /// Something did not work.
    Failed(String),
}

impl Failure {
    /// An error with what was being done before it: `map_err(Failure::of("read the state"))`.
    pub(crate) fn of<E: Display>(doing: impl Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::Failed(format!("could not {doing}: {error}"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::Failed(what) => f.write_str(what),
        }
    }
}

impl From<onceward_local_postgres::Error> for Failure {
    fn from(error: onceward_local_postgres::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<onceward_local_brokers::Error> for Failure {
    fn from(error: onceward_local_brokers::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

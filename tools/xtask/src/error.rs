//! Errors of a command. The two kinds have different exit codes.

use std::fmt::{self, Display};

/// A command's error.
#[derive(Debug)]
pub(crate) enum XtaskError {
    /// The command line is invalid.
    Usage(String),
    /// An operation failed.
    Failed(String),
}

impl XtaskError {
    /// Converts an error, prefixed with the failed operation: `map_err(XtaskError::of("read the state"))`.
    pub(crate) fn of<E: Display>(doing: impl Display) -> impl FnOnce(E) -> XtaskError {
        move |error| XtaskError::Failed(format!("could not {doing}: {error}"))
    }
}

impl Display for XtaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XtaskError::Usage(what) | XtaskError::Failed(what) => f.write_str(what),
        }
    }
}

impl From<onceward_local_postgres::LocalPostgresError> for XtaskError {
    fn from(error: onceward_local_postgres::LocalPostgresError) -> XtaskError {
        XtaskError::Failed(error.to_string())
    }
}

impl From<onceward_local_brokers::LocalBrokerError> for XtaskError {
    fn from(error: onceward_local_brokers::LocalBrokerError) -> XtaskError {
        XtaskError::Failed(error.to_string())
    }
}

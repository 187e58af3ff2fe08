//! One error type for everything that can go wrong between this process and PostgreSQL.

use crate::writes;
use std::fmt;
use tokio_postgres::error::SqlState;

/// A database error, classified by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The settings are wrong; nothing was attempted.
    #[error("{0}")]
    Config(String),
    /// The database cannot be reached, is starting up, or closed the connection.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The server responds but cannot work at the moment: its disk is full, it is read-only, or it is out of memory.
    #[error("{reason}: {error}")]
    Impaired {
        /// What is wrong with the server, for an operator.
        reason: &'static str,
        /// The server's error.
        error: StatementError,
    },
    /// Every pooled connection was busy for the whole acquire timeout.
    #[error("all {pool_size} database connections stayed busy for {waited_ms} ms; raise the pool size or shed load")]
    Busy {
        /// The pool's size.
        pool_size: usize,
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// The connection broke during the commit, which may or may not have happened.
    #[error("the connection broke during commit; whether it happened is unknown until the request is repeated")]
    OutcomeUnknown,
    /// A statement of this transaction failed earlier, or was abandoned before it was answered, so a commit would
    /// silently do nothing.
    #[error(
        "the transaction was already aborted: an earlier statement failed, or was abandoned before it was answered; \
         roll back to a savepoint before it, or run the whole transaction again"
    )]
    Aborted,
    /// Something this transaction relied on has changed. Nothing was written, and the same call may succeed now.
    #[error("{0}")]
    Stale(String),
    /// The data to write contradicts what was written before. Nothing was written, and the same call will fail again.
    #[error("{0}")]
    Conflict(String),
    /// A migration is missing, changed or failed.
    #[error("{0}")]
    Migration(String),
    /// The server refused the statement.
    #[error("{0}")]
    Statement(StatementError),
}

/// A server error that never shows a row's values, however it is printed.
///
/// `DETAIL` may contain personal data, and the driver's own error prints it. So this type has no source: code that
/// walks the chain of causes for a log line must stop here.
pub struct StatementError(tokio_postgres::Error);

impl StatementError {
    /// The server's five-character code, if the server responded at all.
    pub fn code(&self) -> Option<&SqlState> {
        self.0.code()
    }

    /// The violated constraint, if the server names one.
    pub fn constraint(&self) -> Option<&str> {
        self.0.as_db_error().and_then(|error| error.constraint())
    }
}

impl fmt::Display for StatementError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&describe(&self.0))
    }
}

impl fmt::Debug for StatementError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(error)
    }
}

/// Returns the server's message and code without the row's values (`DETAIL` may contain personal data), or the driver's
/// own message if the server sent none.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(db), _) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

impl DbError {
    /// The server's five-character code, if the server responded at all.
    pub fn sql_state(&self) -> Option<&SqlState> {
        match self {
            Self::Statement(error) | Self::Impaired { error, .. } => error.code(),
            _ => None,
        }
    }

    /// Returns whether the database is unreachable or cannot work at the moment; the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Impaired { .. } | Self::Busy { .. } | Self::OutcomeUnknown)
    }

    /// Returns whether the connection was lost, so that it is unknown whether the server ran the statement.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::OutcomeUnknown)
    }

    /// Returns whether retrying the whole transaction may succeed.
    pub fn is_transient(&self) -> bool {
        self.is_unavailable()
            || matches!(self, Self::Stale(_))
            || self.sql_state().is_some_and(|state| {
                [
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::T_R_DEADLOCK_DETECTED,
                    SqlState::LOCK_NOT_AVAILABLE,
                    SqlState::QUERY_CANCELED,
                ]
                .contains(state)
            })
    }

    /// Returns the name of the violated unique constraint, if that is the error.
    pub fn unique_violation(&self) -> Option<&str> {
        match self {
            Self::Statement(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                error.constraint().or(Some(""))
            }
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(reason) = error.as_db_error().and_then(|db| impairment(db.code(), db.message())) {
            writes::record_failure();
            return Self::Impaired { reason, error: error.into() };
        }
        match error.code() {
            Some(state) if server_is_shutting_down(state) => Self::Unavailable(describe(&error)),
            Some(_) => Self::Statement(error.into()),
            None if error.is_closed() || std::error::Error::source(&error).is_some_and(is_io) => {
                Self::Unavailable(describe(&error))
            }
            None => Self::Statement(error.into()),
        }
    }
}

fn is_io(source: &(dyn std::error::Error + 'static)) -> bool {
    source.is::<std::io::Error>()
}

/// Returns why a server that responds cannot work, or `None` if the error is the statement's own fault.
fn impairment(state: &SqlState, message: &str) -> Option<&'static str> {
    if *state == SqlState::DISK_FULL {
        Some("the database's disk is full")
    } else if *state == SqlState::READ_ONLY_SQL_TRANSACTION {
        Some("the database is read-only")
    } else if *state == SqlState::INSUFFICIENT_PRIVILEGE && message.contains("Read-only file system") {
        // The server's message for EROFS. Missing privileges on a table have a different message.
        Some("the database's disk is read-only")
    } else if *state == SqlState::OUT_OF_MEMORY {
        Some("the database is out of memory")
    } else if [SqlState::INSUFFICIENT_RESOURCES, SqlState::IO_ERROR].contains(state) {
        Some("the database cannot use its disk")
    } else {
        None
    }
}

fn server_is_shutting_down(state: &SqlState) -> bool {
    state.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impaired_server_is_distinguished_from_a_wrong_statement() {
        let cases = [
            (SqlState::DISK_FULL, "could not extend file", Some("the database's disk is full")),
            (SqlState::READ_ONLY_SQL_TRANSACTION, "cannot execute INSERT", Some("the database is read-only")),
            (
                SqlState::INSUFFICIENT_PRIVILEGE,
                "could not open file \"base/1\": Read-only file system",
                Some("the database's disk is read-only"),
            ),
            (SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for table loan", None),
            (SqlState::OUT_OF_MEMORY, "out of memory", Some("the database is out of memory")),
            (SqlState::UNIQUE_VIOLATION, "duplicate key", None),
        ];
        for (state, message, expected) in cases {
            assert_eq!(impairment(&state, message), expected, "{state:?}");
        }
    }
}

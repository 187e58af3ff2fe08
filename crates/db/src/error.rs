//! One error type for everything that can go wrong between us and PostgreSQL.

use tokio_postgres::error::SqlState;

/// What went wrong, sorted by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The settings are wrong; nothing was attempted.
    #[error("{0}")]
    Config(String),
    /// The database cannot be reached, is starting up, or closed the connection.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// Every pooled connection was busy for the whole acquire timeout.
    #[error("all {pool_size} database connections stayed busy for {waited_ms} ms; raise the pool size or shed load")]
    Busy {
        /// The pool's size.
        pool_size: usize,
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// The connection broke while the commit was under way: it may or may not have happened.
    #[error("the connection broke during commit; whether it happened is unknown until the request is repeated")]
    OutcomeUnknown,
    /// A statement of this transaction failed earlier, so committing it would silently do nothing.
    #[error("the transaction was already aborted by an earlier error")]
    Aborted,
    /// Something this transaction relied on has changed; nothing was written, and the same call may work now.
    #[error("{0}")]
    Stale(String),
    /// A migration is missing, changed or failed.
    #[error("{0}")]
    Migration(String),
    /// The server refused the statement.
    #[error("{}", describe(.0))]
    Statement(#[source] tokio_postgres::Error),
}

/// The server's message and code, without the row's values (`DETAIL` may carry personal data).
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}

impl DbError {
    /// The server's five-character code, if the server answered at all.
    pub fn sql_state(&self) -> Option<&SqlState> {
        match self {
            Self::Statement(error) => error.code(),
            _ => None,
        }
    }

    /// The database is gone for the moment; the same call may work later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Busy { .. } | Self::OutcomeUnknown)
    }

    /// Trying the whole transaction again may succeed.
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

    /// A unique constraint said no; gives its name.
    pub fn unique_violation(&self) -> Option<&str> {
        match self {
            Self::Statement(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                error.as_db_error().and_then(|db| db.constraint()).or(Some(""))
            }
            _ => None,
        }
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(state) if server_is_leaving(state) => Self::Unavailable(describe(&error)),
            Some(_) => Self::Statement(error),
            None if error.is_closed() || std::error::Error::source(&error).is_some_and(is_io) => {
                Self::Unavailable(error.to_string())
            }
            None => Self::Statement(error),
        }
    }
}

fn is_io(source: &(dyn std::error::Error + 'static)) -> bool {
    source.is::<std::io::Error>()
}

fn server_is_leaving(state: &SqlState) -> bool {
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

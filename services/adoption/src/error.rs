//! Errors that stop an adoption. Completed work is kept; the next run continues from there.

use onceward::DbError;
use onceward_audit::AuditError;

/// An error that stops an adoption.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// The database does not meet the requirements, or is being adopted with another mapping.
    #[error("{0}")]
    Refused(String),
    /// Other transactions held a lock for too long.
    #[error("{0}: other transactions held the lock for too long; end them or run again later")]
    Locked(String),
    /// An audit entry cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<tokio_postgres::Error> for AdoptionError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Db(error.into())
    }
}

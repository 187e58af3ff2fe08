//! Why an adoption does not go on. What is done stays done; the next run goes on from there.

use onceward::DbError;
use onceward_audit::AuditError;

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// The database is not as it has to be, or was adopted as something else.
    #[error("{0}")]
    Refused(String),
    /// Old transactions keep something locked.
    #[error("{0} is locked by other transactions for too long: end them, or run again later")]
    Locked(String),
    /// An audit entry cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The database says no.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<tokio_postgres::Error> for AdoptionError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Db(error.into())
    }
}

//! Commands on documents, one per file.

mod analyze;
mod record_step;
mod upload;

pub(crate) use analyze::analyze;
pub(crate) use record_step::record_step;
pub(crate) use upload::{UploadOutcome, upload};

use onceward::{DbError, Failure, Problem, PublishError};
use onceward_audit::AuditError;

/// A failure of the platform below a command. An unreadable document is not an error: it is recorded with its analysis.
#[derive(Debug)]
pub(crate) enum DocumentsError {
    Db(DbError),
    Publish(PublishError),
    Audit(AuditError),
}

impl From<DbError> for DocumentsError {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

impl From<PublishError> for DocumentsError {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

impl From<AuditError> for DocumentsError {
    fn from(error: AuditError) -> Self {
        Self::Audit(error)
    }
}

impl From<DocumentsError> for Problem {
    fn from(error: DocumentsError) -> Self {
        match error {
            DocumentsError::Db(error) => error.into(),
            DocumentsError::Publish(error) => error.into(),
            DocumentsError::Audit(error) => Problem::internal(error),
        }
    }
}

impl From<DocumentsError> for Failure {
    fn from(error: DocumentsError) -> Self {
        match error {
            DocumentsError::Db(error) => error.into(),
            DocumentsError::Publish(error) => error.into(),
            DocumentsError::Audit(error) => Failure::permanent(error),
        }
    }
}

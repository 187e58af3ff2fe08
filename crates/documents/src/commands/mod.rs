//! What can be done with documents: one verb a file.

mod analyze;
mod read_step;
mod upload;

pub(crate) use analyze::analyze;
pub(crate) use read_step::read_step;
pub(crate) use upload::{Uploaded, upload};

use onceward::{DbError, Failure, Problem, PublishError};
use onceward_audit::AuditError;

/// The machinery below; what a document itself is to blame for is recorded with its analysis.
#[derive(Debug)]
pub(crate) enum Machinery {
    Db(DbError),
    Publish(PublishError),
    Audit(AuditError),
}

impl From<DbError> for Machinery {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

impl From<PublishError> for Machinery {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

impl From<AuditError> for Machinery {
    fn from(error: AuditError) -> Self {
        Self::Audit(error)
    }
}

impl From<Machinery> for Problem {
    fn from(error: Machinery) -> Self {
        match error {
            Machinery::Db(error) => error.into(),
            Machinery::Publish(error) => error.into(),
            Machinery::Audit(error) => Problem::internal(error),
        }
    }
}

impl From<Machinery> for Failure {
    fn from(error: Machinery) -> Self {
        match error {
            Machinery::Db(error) => error.into(),
            Machinery::Publish(error) => error.into(),
            Machinery::Audit(error) => Failure::permanent(error),
        }
    }
}

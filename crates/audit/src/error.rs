//! What can be wrong with an entry.

use onceward_db::DbError;
use onceward_envelope::canonical::CanonicalError;

/// Why an entry was not recorded. None of it can succeed by trying again.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The transaction belongs to no tenant, and every chain belongs to one.
    #[error("an audit entry belongs to a tenant: {0}")]
    NoTenant(#[source] DbError),
    /// A number has no exact form that everybody reads alike.
    #[error("the audit entry cannot be recorded: {0}")]
    Number(#[from] CanonicalError),
    /// A NUL character, which PostgreSQL cannot store.
    #[error("the audit entry cannot be recorded: there is a NUL character in it; leave it out")]
    Nul,
    /// A name or an id that is empty or too long to be looked up.
    #[error("the audit entry cannot be recorded: {what} must have 1 to {most} characters")]
    Length {
        /// Which part.
        what: &'static str,
        /// The most characters it may have.
        most: usize,
    },
    /// More than an entry may hold.
    #[error(
        "the audit entry has {bytes} bytes, {most} at most; keep its payload elsewhere and record its hash with `payload_hash`"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest there may be.
        most: usize,
    },
    /// More than one transaction may record.
    #[error("this transaction records more than {most_bytes} bytes of audit entries; do it in several transactions")]
    TooMany {
        /// The most that one transaction may record.
        most_bytes: usize,
    },
}

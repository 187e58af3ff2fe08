//! Errors of invalid entries.

use onceward_envelope::canonical::CanonicalError;

/// The reason why an entry was not recorded. Retrying never helps.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The transaction has no tenant, and every chain belongs to one.
    #[error("an audit entry belongs to a tenant, but this transaction has none; begin it with a tenant's scope")]
    NoTenant,
    /// A number has no exact form that all readers interpret alike.
    #[error("the audit entry cannot be recorded: {0}")]
    Number(#[from] CanonicalError),
    /// The entry contains a NUL character, which PostgreSQL cannot store.
    #[error("the audit entry cannot be recorded: it contains a NUL character; remove it")]
    Nul,
    /// A name or an id is empty or too long for the index.
    #[error("the audit entry cannot be recorded: {what} must have 1 to {most} characters")]
    Length {
        /// The part concerned.
        what: &'static str,
        /// The maximum number of characters.
        most: usize,
    },
    /// The entry is too large.
    #[error(
        "the audit entry has {bytes} bytes, but at most {most} are allowed; store its payload elsewhere and record its hash with `payload_hash`"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The maximum size in bytes.
        most: usize,
    },
    /// The transaction records too much.
    #[error("this transaction records more than {most_bytes} bytes of audit entries; do it in several transactions")]
    TooMany {
        /// The maximum number of bytes per transaction.
        most_bytes: usize,
    },
}

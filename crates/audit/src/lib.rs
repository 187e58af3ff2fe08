//! The audit trail: who did what, chained so that a change afterwards shows.
//!
//! [`record`] buffers an [`Entry`] in a transaction; it is written with the commit, or not at all. Each tenant has one
//! chain, numbered from 1 without gaps in the order of commits. [`verify`] walks it and names the first broken link.
//! The application's role can read its tenant's entries and append, nothing else, and a trigger refuses changes by
//! anybody. Against somebody who can switch off triggers there is the chain, and against somebody who computes all of it
//! anew there are [`Heads`], exported and kept elsewhere.
//!
//! # The byte layout
//!
//! To verify a chain in any language, all it takes is SHA-256:
//!
//! ```text
//! record_hash(0)   = 32 zero bytes                        before the first entry
//! record_hash(seq) = SHA-256( record_hash(seq - 1)        32 bytes
//!                          || seq                         8 bytes, signed, the highest first
//!                          || document )                  UTF-8
//! ```
//!
//! A document is canonical JSON (RFC 8785) with these members, of which the optional ones are left out when there is
//! nothing to say: `v` (the number 1), `tenantId`, `actor` (an object with `userId`, `service` or both), `correlationId`,
//! `occurredAt` (RFC 3339, UTC), `eventType`, `objectType?`, `objectId?`, `loanId?`, `oldValue?`, `newValue?`,
//! `payload?`, `payloadHash?` (SHA-256 as 64 hexadecimal digits). Whole numbers beyond 2^53 are refused: readers would
//! round them, and two amounts would look the same.
//!
//! An export is JSON Lines of `{"tenantId","seq","prevHash","recordHash","document"}`: hashes in hexadecimal, the
//! document as a string. A head is `{"tenantId","seq","hash","at"}`.
//!
//! Reading order: [`Entry`] says what was done, `buffer` holds it until the commit, `migrations/0001_chain.sql` chains
//! it, `chain` checks links without any I/O, `verify` and `read` bring them in.

mod buffer;
mod chain;
mod entry;
mod error;
mod finding;
mod head;
mod read;
mod store;
mod verify;

pub use buffer::record;
pub use chain::{GENESIS, Link, link_hash};
pub use entry::Entry;
pub use error::AuditError;
pub use finding::{Broken, Verified, What};
pub use head::{FileError, Head, Heads};
pub use read::{Filter, Recorded, chains, head, is_there, list, page};
pub use verify::{verify, verify_file};

use onceward_db::{Migration, Migrations, RequiredTable};

/// The schema `audit`. Every service that records declares it.
pub const MIGRATIONS: Migrations = Migrations {
    schema: "audit",
    steps: &[Migration { name: "0001_chain", sql: include_str!("../migrations/0001_chain.sql") }],
};

/// The columns this crate relies on, for the start-up check.
pub const REQUIRED: &[RequiredTable] = &[
    RequiredTable {
        table: "audit.entry",
        columns: &[
            "tenant_id",
            "seq",
            "occurred_at",
            "event_type",
            "actor",
            "object_type",
            "object_id",
            "loan_id",
            "correlation_id",
            "document",
            "prev_hash",
            "record_hash",
        ],
    },
    RequiredTable { table: "audit.head", columns: &["tenant_id", "seq", "hash", "moved_at"] },
];

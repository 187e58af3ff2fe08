//! The audit trail: who did what, chained so that later changes are detected.
//!
//! [`record`] buffers an [`Entry`] in a transaction; it is written with the commit, or not at all. Each tenant has one
//! chain, numbered from 1 without gaps in the order of commits. [`verify`] walks it and reports the first broken link.
//! The application's role can read its tenant's entries and append, nothing else, and a trigger rejects changes by
//! anyone. The chain protects against someone who can disable triggers, and [`ExportedHeads`], exported and stored elsewhere,
//! protect against someone who recomputes the whole chain.
//!
//! # The byte layout
//!
//! To verify a chain in any language, SHA-256 is sufficient:
//!
//! ```text
//! record_hash(0)   = 32 zero bytes                        before the first entry
//! record_hash(seq) = SHA-256( record_hash(seq - 1)        32 bytes
//!                          || seq                         8 bytes, signed, the highest first
//!                          || document )                  UTF-8
//! ```
//!
//! A document is canonical JSON (RFC 8785) with these members, of which the optional ones are omitted if empty: `v`
//! (the number 1), `tenantId`, `actor` (an object with `userId`, `service` or both), `correlationId`, `occurredAt`
//! (RFC 3339, UTC), `eventType`, `objectType?`, `objectId?`, `loanId?`, `oldValue?`, `newValue?`, `payload?`,
//! `payloadHash?` (SHA-256 as 64 hexadecimal digits). Integers beyond 2^53 are rejected: readers would round them, and
//! two amounts would look the same.
//!
//! An export is JSON Lines of `{"tenantId","seq","prevHash","recordHash","document"}`: hashes in hexadecimal, the
//! document as a string. A head is `{"tenantId","seq","hash","at"}`.
//!
//! Reading order: [`Entry`] describes an action, `buffer` holds it until the commit, `migrations/0001_chain.sql`
//! chains it, `chain` checks links without any I/O, `verify` and `read` load them.

mod buffer;
mod chain;
mod entry;
mod error;
mod head;
mod operator;
mod read;
mod store;
mod verification;
mod verify;

pub use buffer::{record, record_as};
pub use chain::{ChainLink, GENESIS, link_hash};
pub use entry::Entry;
pub use error::AuditError;
pub use head::{AuditFileError, ChainHead, ExportedHeads};
pub use operator::{Operator, PLATFORM, host, owner_action, record_action};
pub use read::{EntryFilter, RecordedEntry, chains, exists, head, list, page};
pub use verification::{BrokenLink, BrokenLinkKind, ChainVerification};
pub use verify::{verify, verify_file};

use onceward_db::{Migration, Migrations, RequiredTable};

/// The schema `audit`. Every service that records entries declares it.
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

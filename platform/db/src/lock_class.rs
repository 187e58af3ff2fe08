//! The classes of advisory locks: the first of the two numbers of such a lock. Every class that any migration or
//! statement uses is listed here with its one owner; `cargo xtask tidy` compares the list with the code.
//!
//! A class has exactly one meaning, because the holder of a lock cannot be asked what it is for. Locks with a single
//! `bigint` key have a separate key space and never conflict with these.

/// Owner: `platform/message-log`. A bucket of ordering keys; publishers hold it until they commit.
pub const ORDERING_KEYS: i32 = 19_011;

/// Owner: `platform/message-log`. A lane; whoever takes a turn in it holds it.
pub const LANE: i32 = 19_012;

/// Owner: `platform/message-log`. Building the indexes of a closed partition of the log; the second number is 0.
pub const LOG_INDEX: i32 = 19_014;

/// Owner: `platform/message-log`. Opening and dropping partitions of the log; the second number is 0.
pub const LOG_PARTITIONS: i32 = 19_015;

/// Owner: `platform/audit`. The first entry of a tenant's chain, by a hash of the tenant.
pub const AUDIT_HEAD: i32 = 19_016;

/// Owner: `services/lending`. Commands with the same key, by a hash of kind and key.
pub const LENDING_COMMAND: i32 = 19_021;

/// Owner: `services/lending`. Versions of a product, by a hash of tenant and code.
pub const LENDING_PRODUCT: i32 = 19_022;

//! The ledger on a real PostgreSQL.

mod as_of;
mod checks;
mod concurrency;
mod posting;
mod reversing;
mod support;
mod tampering;
mod tenants;

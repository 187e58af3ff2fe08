//! The audit trail on a real PostgreSQL.

mod concurrency;
mod handlers;
mod isolation;
mod offline;
mod recording;
mod support;
mod tampering;

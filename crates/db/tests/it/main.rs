//! The database layer on a real PostgreSQL.

mod buffers;
mod isolation;
mod listen;
mod migrations;
mod outage;
mod savepoints;
mod support;
mod transactions;

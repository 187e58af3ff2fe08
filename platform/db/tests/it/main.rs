//! Tests of the database layer on a real PostgreSQL.

mod buffers;
mod isolation;
mod listen;
mod migrations;
mod outage;
mod pooler;
mod savepoints;
mod support;
mod transactions;

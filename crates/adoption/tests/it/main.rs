//! A legacy database is brought over while its old program goes on, against a real PostgreSQL.

mod amounts;
mod bring;
mod interrupted;
mod old_program;
mod outbox;
mod shape;
mod support;
mod verify;

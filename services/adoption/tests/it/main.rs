//! Adopts a legacy database while the old program runs, against a real PostgreSQL.

mod amounts;
mod import;
mod interrupted;
mod mapping;
mod old_program;
mod outbox;
mod support;
mod verify;

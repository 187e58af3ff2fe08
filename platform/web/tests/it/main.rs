//! The HTTP edge against a real PostgreSQL server.

mod commands;
mod database;
mod declared;
mod keys;
mod limits;
mod observed;
mod problems;
mod serving;
mod spans;
mod state;
mod support;
mod tokens;

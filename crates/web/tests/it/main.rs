//! The HTTP edge against a real PostgreSQL.

mod commands;
mod database;
mod keys;
mod limits;
mod observed;
mod problems;
mod serving;
mod support;
mod tokens;

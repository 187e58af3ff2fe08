//! The suppression list: shown, extended and shortened by people. Answers contain hashes only.

mod commands;
mod cursor;
mod routes;

pub(super) use routes::routes;

//! Respondents' answers, for users with the right role: read page by page, exported as a stream, and erased.
//!
//! `read` groups a session's answers by question, `export` streams them as CSV (`csv`) or JSON lines, `erase` removes
//! them permanently; `store` contains the SQL. Reading requires the role `surveys:answers`, erasing `surveys:erase`;
//! authors do not have these roles automatically.
//!
//! Invariant: an export holds one batch in memory, regardless of the number of sessions.

mod csv;
mod erase;
mod export;
mod read;
mod routes;
mod store;

pub(crate) use routes::{CONCURRENT_EXPORTS_MAX, routes};

/// The JSON Schemas of this module.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/answers.v1.json"),
    include_str!("../../schemas/answers.list.v1.json"),
    include_str!("../../schemas/answers.erase.v1.json"),
    include_str!("../../schemas/answers.erased.v1.json"),
];

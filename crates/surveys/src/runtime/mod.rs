//! What respondents do: begin, answer page by page, go on another day, complete, or leave.
//!
//! Every gate is passed in one transaction on PostgreSQL: admission, the page's rules, routing, quotas. What happened is told
//! in the same transaction. No step waits for a bus.
//!
//! ```text
//! start ──► active ──page──► active ── … ──complete──► completed
//!              ├── an answer rules them out, a bucket is full, they leave ──► terminated
//!              └── silent: places go back ── silent for longer ──► terminated (expired)
//! ```
//!
//! A step costs three round trips: the session's row is locked and read with its answers, the page is checked and routed
//! here, one call moves places and writes, and the messages travel with the commit. Steps that come while others are on their
//! way share all three. Reading order: `routes`, `commands` (one verb a file), `turnstile`, `store`.

mod commands;
mod consumers;
mod desk;
mod pages;
mod routes;
pub(crate) mod store;
mod turnstile;
mod view;

pub(crate) use consumers::consumers;
pub use consumers::{EXPIRE_TOPIC, ExpireSessions};
pub(crate) use desk::Desk;
pub(crate) use routes::routes;
pub(crate) use turnstile::describe;

/// The contracts.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/page.submit.v1.json"),
    include_str!("../../schemas/session.end.v1.json"),
    include_str!("../../schemas/session.view.v1.json"),
    include_str!("../../schemas/session.begun.v1.json"),
    include_str!("../../schemas/sessions.expire.v1.json"),
];

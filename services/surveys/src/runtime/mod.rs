//! The respondents' side: start, answer page by page, continue later, complete, or leave.
//!
//! Every step runs in one transaction on PostgreSQL: admission, the page's rules, routing, quotas. Events are published
//! in the same transaction. No step waits for a bus.
//!
//! ```text
//! start ──► active ──page──► active ── … ──complete──► completed
//!              ├── screened out, a bucket is full, the respondent leaves ──► terminated
//!              └── inactive: places are released ── for longer ──► terminated (expired)
//! ```
//!
//! A step costs three round trips: the session's row is locked and read with its answers, the page is checked and
//! routed here, one call changes places and writes, and the messages are sent with the commit. Steps that arrive while
//! others are in flight share all three.
//!
//! Reading order: `routes` (JSON) and `pages` (HTML), `context` (the checks of every request), `step_batcher`,
//! `commands` (one file per verb), `store`, `view` (what the respondent sees).

mod commands;
mod consumers;
mod context;
mod pages;
mod routes;
mod step_batcher;
pub(crate) mod store;
mod view;

pub(crate) use commands::{EndedSession, end_for_erasure};
pub use consumers::ExpireSessions;
pub(crate) use context::SurveyContext;
pub(crate) use routes::routes;

use crate::Settings;
use onceward::Service;
use std::sync::Arc;

/// Adds the consumers, schedules, metrics and schemas of this module to the service.
pub(crate) fn declare(service: Service, settings: &Arc<Settings>) -> Service {
    consumers::declare(service.schemas(SCHEMAS), settings).metrics(step_batcher::describe_metrics)
}

const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/page.submit.v1.json"),
    include_str!("../../schemas/session.end.v1.json"),
    include_str!("../../schemas/session.view.v1.json"),
    include_str!("../../schemas/session.begun.v1.json"),
    include_str!("../../schemas/sessions.expire.v1.json"),
];

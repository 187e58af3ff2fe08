//! Mails: how they are requested, and what is known about each recipient.
//!
//! ```text
//! queued ──▶ handed_over ──▶ accepted        the provider has it
//!   ▲  │          ├────────▶ refused         it will not take it for this recipient
//!   │  │          ├────────▶ unknown         handed over, and no answer was read: never sent again by itself
//!   │  │          └────────▶ deferred ─┐     it will take it later
//!   │  ├─▶ suppressed, expired          │
//!   └──┼────────────────────────────────┘
//!      └─▶ failed                            the last attempt was deferred, too
//! ```

mod commands;
mod recipients;
mod routes;
mod status;
pub(crate) mod store;

pub(crate) use commands::{Registration, decode_attachment, policy, register};
pub(crate) use recipients::{RecipientField, Recipients};
pub(crate) use routes::{SCHEMAS, routes};
pub(crate) use status::{RecipientState, status_of};

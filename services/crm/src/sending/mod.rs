//! Sends requested mails: render, store the artifact, hand over, settle.
//!
//! ```text
//! lease ─▶ breaker, bulkhead ─▶ one commit: rows, artifact, `handed_over` ─▶ provider ─▶ one commit: result, event, audit,
//!                                                                                        acknowledgement
//! ```
//!
//! A process that dies after the first commit leaves `handed_over` behind. The next worker cannot know whether the provider
//! has the mail, so it records `unknown`, unless the template asks for at least one delivery or the provider recognizes a
//! repetition. One recipient is one envelope, so the result of one says nothing about the others.
//!
//! Reading order: `handler` (the flow), `handover` (the first commit), `prepare` (the bytes), `provider`, `outcome` (the
//! second commit).

mod handler;
mod handover;
mod outcome;
mod prepare;
pub(crate) mod provider;
mod rate;
mod run;
mod sweep;

pub(crate) use handler::{consumer, destinations};
pub(crate) use rate::SendRates;
pub(crate) use sweep::sweep_consumer;

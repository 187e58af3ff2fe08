//! The respondents' commands, one file per verb. Starting and expiring have their own transactions. The others are
//! steps: each is decided here and written together with those of other sessions (`step_batcher`).

mod erase;
mod expire;
mod finish;
mod start;
mod step;
mod submit;

pub(crate) use erase::{EndedSession, end_for_erasure};
pub(super) use expire::expire;
pub(super) use start::{StartOrigin, StartedSession, start, start_digest};
pub(super) use step::{SessionStep, StepDecision, StepOutcome};
pub(super) use submit::PageSubmitRequest;

//! What respondents do, one verb a file. Starting and the clock's tick are transactions of their own. The others are steps:
//! each is decided here and written with those of others (`turnstile`).

mod complete;
mod expire;
mod start;
mod step;
mod submit;
mod terminate;

pub(super) use expire::expire;
pub(super) use start::{Begun, start, start_digest};
pub(super) use step::{Decision, Step, Verdict};
pub(super) use submit::PageSubmit;

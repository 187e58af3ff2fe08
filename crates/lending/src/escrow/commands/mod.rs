//! What is done, one verb a file.

mod ask;
mod disburse;

pub(super) use ask::ask;
pub(super) use disburse::{Outcome, disburse};

//! What is done, one verb a file.

mod complete;
mod look;
mod make_facts;
mod open;

pub(super) use look::look;
pub(super) use make_facts::{Outcome, make_facts};
pub(super) use open::open;

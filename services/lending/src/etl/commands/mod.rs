//! The reporting commands, one per file.

mod build_facts;
mod open_windows;
mod scan_postings;

pub(super) use build_facts::{JobOutcome, build_facts};
pub(super) use open_windows::open_windows;
pub(super) use scan_postings::scan_postings;

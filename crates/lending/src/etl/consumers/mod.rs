//! Who reads which queue: one subscription a file.

mod on_job;
mod on_schedule;

pub(super) use on_job::OnJob;
pub(super) use on_schedule::OnSchedule;

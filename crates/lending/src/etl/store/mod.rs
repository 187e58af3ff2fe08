//! All SQL of reporting. Row-level security adds the tenant to every condition.

mod arrivals;
mod facts;
mod progress;
mod status;
mod windows;

pub(super) use arrivals::{mark_later_windows, note_arrivals};
pub(super) use facts::{Made, replace_facts};
pub(super) use progress::{Progress, lock_progress, save_progress};
pub(super) use status::{find_status, latest_start};
pub(super) use windows::{Opened, complete_window, finish_shard, lock_shard, open_windows, stale_windows};

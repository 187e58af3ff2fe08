//! All SQL of reporting. Row-level security adds the tenant to every condition.

mod facts;
mod progress;
mod scan;
mod status;
mod windows;

pub(super) use facts::{FactCounts, replace_facts};
pub(super) use progress::{EtlProgress, lock_progress, save_progress};
pub(super) use scan::{mark_later_windows, scan_new_events};
pub(super) use status::{find_status, latest_start};
pub(super) use windows::{OpenedWindow, complete_window, finish_shard, lock_shard, open_windows, stale_windows};

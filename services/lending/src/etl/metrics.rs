//! The metrics of reporting, recorded with the commit of what they count.

use jiff::Timestamp;
use metrics::{counter, describe_counter, describe_histogram, histogram};
use onceward::Tx;

/// The time from the tick that opened a window to its completion.
pub(crate) const WINDOW_SECONDS: &str = "etl_window_seconds";
const WINDOWS_COMPLETED: &str = "etl_windows_completed_total";

/// Describes all metrics.
pub(crate) fn describe() {
    describe_counter!(WINDOWS_COMPLETED, "Reporting windows that were completed, also again");
    describe_histogram!(WINDOW_SECONDS, "Seconds from the schedule tick of a reporting window to its completion");
}

/// Records that a window was completed. Seconds are counted from the time of the tick that opened it, however long the
/// tick's message waited.
pub(crate) fn completed(tx: &mut Tx, tick_at: Timestamp, completed_at: Timestamp) {
    let took_us = completed_at.as_microsecond() - tick_at.as_microsecond();
    tx.after_commit(move || {
        counter!(WINDOWS_COMPLETED).increment(1);
        histogram!(WINDOW_SECONDS).record(took_us.max(0) as f64 / 1_000_000.0);
    });
}

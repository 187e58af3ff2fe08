//! What is counted.

use jiff::Timestamp;
use metrics::{counter, histogram};

/// A window was completed; seconds are counted from the tick that opened it.
pub(crate) fn completed(opened_at: Timestamp, completed_at: Timestamp) {
    counter!("etl_windows_completed_total").increment(1);
    let took_us = completed_at.as_microsecond() - opened_at.as_microsecond();
    histogram!("etl_window_seconds").record(took_us.max(0) as f64 / 1_000_000.0);
}

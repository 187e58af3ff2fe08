//! Opens windows that have ended, and reopens those to which something was added.

use crate::{
    LendingError, Settings,
    etl::{
        events::EtlJob,
        store::{self, EtlProgress, OpenedWindow},
        window::WindowLength,
    },
    settings::MAX_SHARDS,
};
use jiff::Timestamp;
use onceward::{NewMessage, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// The number of windows opened per transaction.
const BATCH: usize = 100;

/// Opens windows that have ended at `time`, oldest first, for the tick of `tick_at`, and publishes their jobs. Returns
/// whether these were all. `progress` must be locked, and saved afterwards.
pub(in crate::etl) async fn open_windows(
    tx: &mut Tx,
    settings: &Settings,
    length: WindowLength,
    progress: &mut EtlProgress,
    time: Timestamp,
    tick_at: Timestamp,
) -> Result<bool, LendingError> {
    // The first tick starts with the window that just ended; earlier events are late for their own windows.
    let (_, first) = length.ended_by(None, time, 0);
    let next = progress.next_window.unwrap_or(first);
    let mut windows = store::stale_windows(tx, next, BATCH as i64).await?;
    let (new, next) = length.ended_by(Some(next), time, BATCH - windows.len());
    windows.extend(new);
    progress.next_window = Some(next);
    let shards = i32::try_from(settings.etl_shards.clamp(1, MAX_SHARDS)).unwrap_or(1);
    let opened = store::open_windows(tx, length, &windows, shards, tick_at).await?;
    publish(tx, &opened).await?;
    Ok(windows.len() < BATCH)
}

async fn publish(tx: &mut Tx, opened: &[OpenedWindow]) -> Result<(), LendingError> {
    let tenant = tx.tenant()?.clone();
    for window in opened {
        let OpenedWindow { window_start, generation, shards } = window;
        if *generation > 1 {
            let payload = json!({"generation": generation, "shards": shards});
            audit::record(tx, Entry::new("etl_window_reopened").object("etl_window", window_start).payload(payload))?;
        }
        for shard in shards {
            let job = EtlJob { window_start: *window_start, shard: *shard, generation: *generation };
            let message = NewMessage::from_event(&job, &tenant)?.once_per(job.key(&tenant));
            outbox::send(tx, message).await?;
        }
    }
    Ok(())
}

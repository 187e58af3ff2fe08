//! Opening windows: those that are over, and again those to which something was added.

use crate::{
    LendingError, Settings,
    etl::{
        events::EtlJob,
        store::{self, Opened, Progress},
        window::Cut,
    },
};
use jiff::Timestamp;
use onceward::{NewMessage, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;

/// Windows that are opened in one transaction.
const AT_ONCE: usize = 100;

/// Opens windows that are over at `time`, oldest first, and publishes their jobs. Gives whether these were all.
/// `progress` is locked and must be saved.
pub(in crate::etl) async fn open(
    tx: &mut Tx,
    settings: &Settings,
    cut: Cut,
    progress: &mut Progress,
    time: Timestamp,
) -> Result<bool, LendingError> {
    // The first tick begins with the window that is over; what happened before is late for its own windows.
    let (_, first) = cut.over(None, time, 0);
    let next = progress.next_window.unwrap_or(first);
    let mut windows = store::stale_windows(tx, next, AT_ONCE as i64).await?;
    let (new, next) = cut.over(Some(next), time, AT_ONCE - windows.len());
    windows.extend(new);
    progress.next_window = Some(next);
    let shards = i32::try_from(settings.etl_shards.clamp(1, MOST_SHARDS)).unwrap_or(1);
    let opened = store::open_windows(tx, cut, &windows, shards).await?;
    publish(tx, &opened).await?;
    Ok(windows.len() < AT_ONCE)
}

/// More would only be small.
const MOST_SHARDS: u32 = 256;

async fn publish(tx: &mut Tx, opened: &[Opened]) -> Result<(), LendingError> {
    let tenant = tx.tenant()?.clone();
    for window in opened {
        let Opened { window_start, generation, shards } = window;
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

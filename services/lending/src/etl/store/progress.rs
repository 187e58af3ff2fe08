//! The progress of a tenant's reporting.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use uuid::Uuid;

const BEGIN: &str =
    "INSERT INTO lending.etl_progress (tenant_id, window_minutes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT window_minutes, next_window, looked_at, looked_id, now() FROM lending.etl_progress WHERE tenant_id = $1 FOR UPDATE";
const SAVE: &str =
    "UPDATE lending.etl_progress SET next_window = $2, looked_at = $3, looked_id = $4 WHERE tenant_id = $1";

/// A tenant's progress.
#[derive(Debug)]
pub(in crate::etl) struct EtlProgress {
    pub window_minutes: i32,
    /// The first window that is not opened yet.
    pub next_window: Option<Timestamp>,
    /// The next scan continues after this event.
    pub scanned_to: Option<(Timestamp, Uuid)>,
}

/// Returns the tenant's progress, locked until the transaction ends (one tick of a tenant is handled at a time), and
/// the database's time.
pub(in crate::etl) async fn lock_progress(tx: &Tx, window_minutes: u32) -> Result<(EtlProgress, Timestamp), DbError> {
    let minutes = i32::try_from(window_minutes.max(1)).unwrap_or(i32::MAX);
    let tenant = tx.tenant()?.as_str();
    tx.execute(BEGIN, &[&tenant, &minutes]).await?;
    let row = tx.query_one(LOCK, &[&tenant]).await?;
    let scanned_to: (Option<Timestamp>, Option<Uuid>) = (row.get(2), row.get(3));
    let progress =
        EtlProgress { window_minutes: row.get(0), next_window: row.get(1), scanned_to: scanned_to.0.zip(scanned_to.1) };
    Ok((progress, row.get(4)))
}

pub(in crate::etl) async fn save_progress(tx: &Tx, progress: &EtlProgress) -> Result<(), DbError> {
    let (looked_at, looked_id) = progress.scanned_to.unzip();
    tx.execute(SAVE, &[&tx.tenant()?.as_str(), &progress.next_window, &looked_at, &looked_id]).await.map(drop)
}

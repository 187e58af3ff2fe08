//! Scans new postings: finds the loans and windows with something new.
//!
//! A posting carries the time at which its transaction began, and becomes visible at commit. So events do not appear
//! in the order of their times, and a scan that continued where the last one ended would miss those of long
//! transactions. Each scan starts [`OVERLAP`] before the end of the last one instead, which is longer than a transaction
//! can be open. Events seen before are counted again and recognised as known.

use crate::etl::{
    store::{self, EtlProgress},
    window::WindowLength,
};
use jiff::{SignedDuration, Timestamp};
use onceward::{DbError, Tx};
use uuid::Uuid;

/// How far each scan goes back. Statements and idle transactions are ended after a minute.
const OVERLAP: SignedDuration = SignedDuration::from_hours(1);
/// The number of events scanned per transaction.
const BATCH: usize = 5_000;

/// Marks what is new, and returns whether everything was scanned. `progress` must be locked, and saved afterwards.
pub(in crate::etl) async fn scan_postings(
    tx: &Tx,
    length: WindowLength,
    progress: &mut EtlProgress,
) -> Result<bool, DbError> {
    let scan = store::scan_new_events(tx, length, progress.scanned_to, BATCH as i64).await?;
    store::mark_later_windows(tx, &scan.changed).await?;
    let all = scan.seen < BATCH;
    let last = scan.last.or(progress.scanned_to);
    let again = |(at, _): (Timestamp, Uuid)| (at.saturating_sub(OVERLAP).unwrap_or(at), Uuid::nil());
    progress.scanned_to = if all { last.map(again) } else { last };
    Ok(all)
}

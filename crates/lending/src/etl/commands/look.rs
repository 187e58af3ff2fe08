//! Looking at what was posted: which loans of which windows have something new.
//!
//! What is posted carries the time at which its transaction began, and can be seen when it has committed. So events do not
//! appear in the order of their times, and a look that went on where the last one ended would miss those that took long.
//! Each begins [`AGAIN`] before the end of the last instead, which is longer than a transaction can be open. What was seen
//! before is counted again and found to be known.

use crate::etl::{
    store::{self, Progress},
    window::Cut,
};
use jiff::{SignedDuration, Timestamp};
use onceward::{DbError, Tx};
use uuid::Uuid;

/// How far back every look begins. Statements and idle transactions are ended after a minute.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);
/// What is looked at in one transaction.
const AT_ONCE: usize = 5_000;

/// Marks what is new, and gives whether everything was looked at. `progress` is locked and must be saved.
pub(in crate::etl) async fn look(tx: &Tx, cut: Cut, progress: &mut Progress) -> Result<bool, DbError> {
    let arrivals = store::note_arrivals(tx, cut, progress.looked, AT_ONCE as i64).await?;
    store::mark_later_windows(tx, &arrivals.changed).await?;
    let all = arrivals.seen < AT_ONCE;
    let last = arrivals.last.or(progress.looked);
    let again = |(at, _): (Timestamp, Uuid)| (at.saturating_sub(AGAIN).unwrap_or(at), Uuid::nil());
    progress.looked = if all { last.map(again) } else { last };
    Ok(all)
}

//! The events posted since the last scan, by loan and window.

use crate::etl::window::WindowLength;
use jiff::Timestamp;
use onceward::{DbError, Tx};
use uuid::Uuid;

/// Counts by loan, using the index on its days, so that it does not matter how much of a window the scan covers.
const SCAN: &str = "
    WITH arrived AS MATERIALIZED (
        (SELECT created_at AS posted_at, event_id AS id, loan_id,
             lending.business_time(created_at, effective_date) AS happened_at
         FROM ledger.ledger_event
         WHERE finalized_at IS NOT NULL AND (created_at, event_id) > (coalesce($2::timestamptz, '-infinity'), $3)
         ORDER BY created_at, event_id LIMIT $4)
        UNION ALL
        (SELECT changed_at, change_id, loan_id, changed_at
         FROM lending.loan_status_change
         WHERE (changed_at, change_id) > (coalesce($2::timestamptz, '-infinity'), $3)
         ORDER BY changed_at, change_id LIMIT $4)
        ORDER BY posted_at, id LIMIT $4),
    touched AS (
        SELECT DISTINCT loan_id, date_bin(make_interval(mins => $5), happened_at, to_timestamp(0)) AS start
        FROM arrived),
    noted AS (
        INSERT INTO lending.etl_loan AS l (tenant_id, window_start, loan_id, events)
        SELECT $1, t.start, t.loan_id,
            (SELECT count(*) FROM ledger.ledger_event e
             WHERE e.loan_id = t.loan_id AND e.finalized_at IS NOT NULL
               AND e.effective_date BETWEEN (t.start AT TIME ZONE 'UTC')::date
                   AND ((t.start + make_interval(mins => $5) - interval '1 microsecond') AT TIME ZONE 'UTC')::date
               AND lending.business_time(e.created_at, e.effective_date) >= t.start
               AND lending.business_time(e.created_at, e.effective_date) < t.start + make_interval(mins => $5))
            + (SELECT count(*) FROM lending.loan_status_change c
               WHERE c.loan_id = t.loan_id AND c.changed_at >= t.start
                 AND c.changed_at < t.start + make_interval(mins => $5))
        FROM touched t
        ON CONFLICT (window_start, tenant_id, loan_id)
            DO UPDATE SET events = excluded.events, stale = true WHERE l.events <> excluded.events
        RETURNING loan_id, window_start)
    SELECT (SELECT count(*) FROM arrived), last.posted_at, last.id,
        array(SELECT loan_id FROM noted ORDER BY loan_id, window_start),
        array(SELECT window_start FROM noted ORDER BY loan_id, window_start)
    FROM (SELECT 1) AS always
    LEFT JOIN (SELECT posted_at, id FROM arrived ORDER BY posted_at DESC, id DESC LIMIT 1) AS last ON true";
/// Marks later windows, because the balances at their ends have changed.
const MARK_LATER: &str = "
    UPDATE lending.etl_loan l SET stale = true
    FROM (SELECT loan_id, min(start) AS start FROM unnest($1::uuid[], $2::timestamptz[]) AS c (loan_id, start) GROUP BY loan_id) c
    WHERE l.loan_id = c.loan_id AND l.window_start > c.start AND NOT l.stale";

/// The result of a scan.
#[derive(Debug)]
pub(in crate::etl) struct ScanResult {
    /// The number of events scanned.
    pub seen: usize,
    /// The last event scanned.
    pub last: Option<(Timestamp, Uuid)>,
    /// Loans and windows that have more events than known before.
    pub changed: (Vec<Uuid>, Vec<Timestamp>),
}

/// Scans up to `limit` events after `after`, and marks loans and windows with new ones.
pub(in crate::etl) async fn scan_new_events(
    tx: &Tx,
    length: WindowLength,
    after: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<ScanResult, DbError> {
    let (at, id) = (after.map(|after| after.0), after.map_or_else(Uuid::nil, |after| after.1));
    let minutes = i32::try_from(length.minutes()).unwrap_or(i32::MAX);
    let row = tx.query_one(SCAN, &[&tx.tenant()?.as_str(), &at, &id, &limit, &minutes]).await?;
    let last: (Option<Timestamp>, Option<Uuid>) = (row.get(1), row.get(2));
    Ok(ScanResult {
        seen: usize::try_from(row.get::<_, i64>(0)).unwrap_or(usize::MAX),
        last: last.0.zip(last.1),
        changed: (row.get(3), row.get(4)),
    })
}

/// Marks the later windows of the same loans.
pub(in crate::etl) async fn mark_later_windows(
    tx: &Tx,
    (loans, starts): &(Vec<Uuid>, Vec<Timestamp>),
) -> Result<(), DbError> {
    if loans.is_empty() {
        return Ok(());
    }
    tx.execute(MARK_LATER, &[loans, starts]).await.map(drop)
}

//! Windows and their shards.
//!
//! Locks are acquired in one order: shards, then windows. A job holds its shard and locks its window at its end; a
//! transaction that opens windows locks all their shards first. So the two cannot deadlock.

use super::FactCounts;
use crate::etl::{events::EtlCompleted, window::WindowLength};
use jiff::Timestamp;
use onceward::{DbError, Tx};

const STALE: &str = "SELECT DISTINCT window_start FROM lending.etl_loan WHERE stale AND window_start < $1 ORDER BY window_start LIMIT $2";
const LOCK_SHARDS: &str =
    "SELECT shard FROM lending.etl_shard WHERE window_start = ANY ($1) ORDER BY window_start, shard FOR UPDATE";
/// Opens new windows, and reopens old ones that have something new.
const OPEN: &str = "
    INSERT INTO lending.etl_window AS w (tenant_id, window_start, window_end, shards, tick_at)
    SELECT $1, s.start, s.start + make_interval(mins => $3), $4, $5
    FROM unnest($2::timestamptz[]) AS s (start)
    ORDER BY s.start
    ON CONFLICT (window_start, tenant_id) DO UPDATE
        SET generation = w.generation + 1, state = 'running', tick_at = excluded.tick_at, opened_at = now(),
            completed_at = NULL
        WHERE EXISTS (SELECT FROM lending.etl_loan l WHERE l.window_start = w.window_start AND l.stale)
    RETURNING window_start";
/// Opens all shards of a new window; of an old one, the shards that have something new.
const OPEN_SHARDS: &str = "
    WITH opened AS (
        INSERT INTO lending.etl_shard (tenant_id, window_start, shard, generation)
        SELECT w.tenant_id, w.window_start, n.shard, w.generation
        FROM lending.etl_window w
        CROSS JOIN LATERAL generate_series(0, w.shards - 1) AS n (shard)
        WHERE w.window_start = ANY ($1)
          AND (w.generation = 1 OR EXISTS (
              SELECT FROM lending.etl_loan l
              WHERE l.window_start = w.window_start AND l.stale AND lending.etl_shard_of(l.loan_id, w.shards) = n.shard))
        ON CONFLICT (window_start, tenant_id, shard) DO UPDATE
            SET generation = excluded.generation, state = 'pending', done_at = NULL
        RETURNING window_start, shard, generation)
    SELECT window_start, generation, array_agg(shard ORDER BY shard) FROM opened
    GROUP BY window_start, generation ORDER BY window_start";
const NOT_STALE: &str = "UPDATE lending.etl_loan SET stale = false WHERE window_start = ANY ($1) AND stale";
const LOCK_SHARD: &str = "SELECT generation, state = 'done' FROM lending.etl_shard \
     WHERE window_start = $1 AND shard = $2 FOR UPDATE";
const FINISH_SHARD: &str = "UPDATE lending.etl_shard SET state = 'done', loans = $3, payments = $4, balances = $5, \
     done_at = clock_timestamp() WHERE window_start = $1 AND shard = $2";
const LOCK_WINDOW: &str = "SELECT FROM lending.etl_window WHERE window_start = $1 FOR UPDATE";
const COMPLETE: &str = "
    UPDATE lending.etl_window w SET state = 'completed', completed_at = clock_timestamp()
    FROM (SELECT count(*) FILTER (WHERE state = 'pending') AS pending, sum(loans) AS loans, sum(payments) AS payments,
              sum(balances) AS balances
          FROM lending.etl_shard WHERE window_start = $1) s
    WHERE w.window_start = $1 AND w.state = 'running' AND s.pending = 0
    RETURNING w.window_start, w.window_end, w.generation, s.loans, s.payments, s.balances, w.completed_at, w.tick_at";

/// Returns the windows before `before` whose facts are stale, oldest first.
pub(in crate::etl) async fn stale_windows(tx: &Tx, before: Timestamp, limit: i64) -> Result<Vec<Timestamp>, DbError> {
    Ok(tx.query(STALE, &[&before, &limit]).await?.iter().map(|row| row.get(0)).collect())
}

/// A window that was opened, and the shards to process.
#[derive(Debug)]
pub(in crate::etl) struct OpenedWindow {
    pub window_start: Timestamp,
    pub generation: i32,
    pub shards: Vec<i32>,
}

/// Opens or reopens windows for the tick of `tick_at`.
pub(in crate::etl) async fn open_windows(
    tx: &Tx,
    length: WindowLength,
    windows: &[Timestamp],
    shards: i32,
    tick_at: Timestamp,
) -> Result<Vec<OpenedWindow>, DbError> {
    if windows.is_empty() {
        return Ok(Vec::new());
    }
    let minutes = i32::try_from(length.minutes()).unwrap_or(i32::MAX);
    tx.query(LOCK_SHARDS, &[&windows]).await?;
    let windows = tx.query(OPEN, &[&tx.tenant()?.as_str(), &windows, &minutes, &shards, &tick_at]).await?;
    let windows: Vec<Timestamp> = windows.iter().map(|row| row.get(0)).collect();
    let opened = tx.query(OPEN_SHARDS, &[&windows]).await?;
    tx.execute(NOT_STALE, &[&windows]).await?;
    let read =
        |row: &onceward::Row| OpenedWindow { window_start: row.get(0), generation: row.get(1), shards: row.get(2) };
    Ok(opened.iter().map(read).collect())
}

/// The state of a shard.
pub(in crate::etl) struct ShardState {
    pub generation: i32,
    pub done: bool,
}

/// Returns the shard, locked until the transaction ends.
pub(in crate::etl) async fn lock_shard(
    tx: &Tx,
    window_start: Timestamp,
    shard: i32,
) -> Result<Option<ShardState>, DbError> {
    let row = tx.query_opt(LOCK_SHARD, &[&window_start, &shard]).await?;
    Ok(row.map(|row| ShardState { generation: row.get(0), done: row.get(1) }))
}

pub(in crate::etl) async fn finish_shard(
    tx: &Tx,
    window_start: Timestamp,
    shard: i32,
    counts: FactCounts,
) -> Result<(), DbError> {
    let FactCounts { loans, payments, balances } = counts;
    tx.execute(FINISH_SHARD, &[&window_start, &shard, &loans, &payments, &balances]).await.map(drop)
}

/// Completes the window if no shard is pending. Returns the event to publish, and the time of the tick that opened the
/// window.
pub(in crate::etl) async fn complete_window(
    tx: &Tx,
    window_start: Timestamp,
) -> Result<Option<(EtlCompleted, Timestamp)>, DbError> {
    // The lock comes first: a single statement that had to wait for it would still see the old state of the other
    // shards.
    tx.query(LOCK_WINDOW, &[&window_start]).await?;
    let row = tx.query_opt(COMPLETE, &[&window_start]).await?;
    Ok(row.map(|row| {
        let completed = EtlCompleted {
            window_start: row.get(0),
            window_end: row.get(1),
            generation: row.get(2),
            loans: row.get(3),
            payments: row.get(4),
            balances: row.get(5),
            completed_at: row.get(6),
        };
        (completed, row.get(7))
    }))
}

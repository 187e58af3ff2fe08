//! The status of windows, for display.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;

const LATEST: &str = "SELECT max(window_start) FROM lending.etl_window";
const WINDOW: &str = "SELECT window_start, window_end, state, generation, opened_at, completed_at \
     FROM lending.etl_window WHERE window_start = $1";
const SHARDS: &str = "SELECT shard, state, generation, loans, payments, balances, done_at \
     FROM lending.etl_shard WHERE window_start = $1 ORDER BY shard";

/// A window as it is returned to callers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::etl) struct WindowStatus {
    window_start: Timestamp,
    window_end: Timestamp,
    state: String,
    generation: i32,
    opened_at: Timestamp,
    completed_at: Option<Timestamp>,
    loans: i64,
    payments: i64,
    balances: i64,
    shards: Vec<ShardStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShardStatus {
    shard: i32,
    state: String,
    generation: i32,
    loans: i32,
    payments: i32,
    balances: i32,
    done_at: Option<Timestamp>,
}

/// Returns the start of the latest window.
pub(in crate::etl) async fn latest_start(tx: &Tx) -> Result<Option<Timestamp>, DbError> {
    Ok(tx.query_one(LATEST, &[]).await?.get(0))
}

pub(in crate::etl) async fn find_status(tx: &Tx, window_start: Timestamp) -> Result<Option<WindowStatus>, DbError> {
    let Some(row) = tx.query_opt(WINDOW, &[&window_start]).await? else {
        return Ok(None);
    };
    let shards: Vec<ShardStatus> = tx.query(SHARDS, &[&window_start]).await?.iter().map(shard).collect();
    let sum = |count: fn(&ShardStatus) -> i32| shards.iter().map(|shard| i64::from(count(shard))).sum();
    Ok(Some(WindowStatus {
        window_start: row.get(0),
        window_end: row.get(1),
        state: row.get(2),
        generation: row.get(3),
        opened_at: row.get(4),
        completed_at: row.get(5),
        loans: sum(|shard| shard.loans),
        payments: sum(|shard| shard.payments),
        balances: sum(|shard| shard.balances),
        shards,
    }))
}

fn shard(row: &Row) -> ShardStatus {
    ShardStatus {
        shard: row.get(0),
        state: row.get(1),
        generation: row.get(2),
        loans: row.get(3),
        payments: row.get(4),
        balances: row.get(5),
        done_at: row.get(6),
    }
}

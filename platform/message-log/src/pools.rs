//! Worker pools in the database: their settings, their size over all processes, and the figures it is decided by.

use crate::triage::{Operator, audit};
use jiff::Timestamp;
use onceward_audit::Entry;
use onceward_db::{Db, DbError, Row, Scope};
use onceward_resilience::autoscale::{PoolSettings, PoolSignals, ScalingDecision, ScalingState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

// In `migrations/0023_pools.sql`:
const DECLARE_POOL: &str = "SELECT onceward.declare_pool($1, $2, $3, $4)";
const REPORT_POOL: &str =
    "SELECT size, members, rank, settings, is_check_due FROM onceward.report_pool($1, $2, $3, $4, $5)";
const LEAVE_POOLS: &str = "SELECT onceward.leave_pools($1)";
const POOL_FIGURES: &str = "SELECT * FROM onceward.pool_figures($1)";
const SAVE_POOL_SIZE: &str = "SELECT onceward.save_pool_size($1, $2, $3, $4, $5, $6)";
const POOLS: &str = "SELECT * FROM onceward.pools()";
const POOL_DECISIONS: &str = "SELECT at, from_size, to_size, reason FROM onceward.pool_decisions($1, $2)";
const SET_POOL: &str = "SELECT onceward.set_pool($1, $2, $3)";

/// What a process reports about its workers of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolReport {
    /// Workers that are handling messages.
    pub active: usize,
    /// Why more workers could not do more now.
    pub blocked: Option<String>,
    /// Messages that were handled successfully since the last report.
    pub completed: u64,
    /// Attempts that failed since the last report.
    pub failed: u64,
    /// The time that workers were busy since the last report.
    pub busy_ms: f64,
}

/// What a process learns in return.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolMembership {
    /// The size of the pool over all processes.
    pub size: usize,
    /// The number of live processes in the pool.
    pub members: usize,
    /// This process's rank among them.
    pub rank: usize,
    /// The settings in force.
    pub settings: PoolSettings,
    /// Whether this process is to decide the size now.
    pub is_check_due: bool,
}

/// Declares a pool, unless that was done before with the same settings.
pub async fn declare(db: &Db, settings: &PoolSettings) -> Result<(), DbError> {
    let state = json!(ScalingState::new(settings.min));
    let size = i32::try_from(settings.min).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    connection.query(DECLARE_POOL, &[&settings.name, &json!(settings), &size, &state]).await.map(drop)
}

/// Reports the work of `process` since its last report.
pub async fn report(db: &Db, pool: &str, process: &str, report: &PoolReport) -> Result<PoolMembership, DbError> {
    let done = json!({"completed": report.completed, "failed": report.failed, "busy_ms": report.busy_ms});
    let active = i32::try_from(report.active).unwrap_or(i32::MAX);
    let connection = db.connection().await?;
    let rows = connection.query(REPORT_POOL, &[&pool, &process, &active, &report.blocked, &done]).await?;
    let number = |column: usize| rows[0].get::<_, i32>(column).max(0).unsigned_abs() as usize;
    Ok(PoolMembership {
        size: number(0),
        members: number(1),
        rank: number(2),
        settings: decode("the settings of a pool", rows[0].get(3))?,
        is_check_due: rows[0].get(4),
    })
}

/// Removes a process that stops from all pools.
pub async fn leave(db: &Db, process: &str) -> Result<(), DbError> {
    let connection = db.connection().await?;
    connection.query(LEAVE_POOLS, &[&process]).await.map(drop)
}

/// The counts of the last decision, from which the next one derives rates; and the rates themselves, for listings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolRates {
    at_ms: i64,
    completed: i64,
    failed: i64,
    busy_ms: f64,
    waiting: i64,
    /// Messages per second that were handled successfully.
    pub throughput_per_s: f64,
    /// The mean time for which a worker was busy with a message.
    pub mean_ms: Option<f64>,
    /// The part of the attempts that failed.
    pub error_rate: f64,
    /// New messages per second.
    pub arrivals_per_s: Option<f64>,
}

/// The time below which no rate is derived.
const SHORTEST_PERIOD_MS: i64 = 100;

/// Decides the size of a pool and stores the decision. `permits` is the number of calls that its destinations allow at the
/// same time, over all processes.
pub async fn decide(
    db: &Db,
    settings: &PoolSettings,
    permits: Option<usize>,
) -> Result<Option<ScalingDecision>, DbError> {
    let connection = db.connection().await?;
    let Some(row) = connection.query(POOL_FIGURES, &[&settings.name]).await?.into_iter().next() else {
        return Ok(None);
    };
    let before: PoolRates = decode("the figures of a pool", row.get(8))?;
    let mut state: ScalingState = decode("the state of a pool", row.get(9))?;
    let rates = PoolRates::since(&before, &row);
    let now_ms: i64 = row.get(10);
    let decision = state.decide(settings, &signals(&row, &rates, permits), now_ms.max(0).unsigned_abs());
    let size = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
    let parameters: &[&(dyn onceward_db::ToSql + Sync)] =
        &[&settings.name, &size(decision.from), &size(decision.to), &decision.reason, &json!(state), &json!(rates)];
    connection.query(SAVE_POOL_SIZE, parameters).await?;
    Ok(Some(decision))
}

fn signals<'a>(row: &'a Row, rates: &PoolRates, permits: Option<usize>) -> PoolSignals<'a> {
    let count = |column: usize| Some(row.get::<_, i64>(column).max(0).unsigned_abs());
    PoolSignals {
        waiting: count(0),
        oldest_age_ms: count(1),
        in_flight: count(3),
        arrivals_per_s: rates.arrivals_per_s,
        mean_ms: rates.mean_ms,
        permits,
        blocked: row.get(4),
    }
}

impl PoolRates {
    fn since(before: &Self, row: &Row) -> Self {
        let (waiting, at_ms): (i64, i64) = (row.get(0), row.get(10));
        let (completed, failed, busy_ms): (i64, i64, f64) = (row.get(5), row.get(6), row.get(7));
        let now = Self { at_ms, completed, failed, busy_ms, waiting, ..before.clone() };
        let period_ms = at_ms - before.at_ms;
        if before.at_ms == 0 || period_ms < SHORTEST_PERIOD_MS {
            return now;
        }
        let seconds = period_ms as f64 / 1_000.0;
        let (done, gone_wrong) = ((completed - before.completed) as f64, (failed - before.failed) as f64);
        let attempts = done + gone_wrong;
        Self {
            throughput_per_s: done / seconds,
            // Without an attempt, the last known mean is the best guess.
            mean_ms: if attempts > 0.0 { Some((busy_ms - before.busy_ms) / attempts) } else { before.mean_ms },
            error_rate: if attempts > 0.0 { gone_wrong / attempts } else { 0.0 },
            arrivals_per_s: Some(((waiting - before.waiting) as f64 + done).max(0.0) / seconds),
            ..now
        }
    }
}

/// A pool with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPoolStatus {
    /// Its name.
    pub name: String,
    /// The settings in force.
    pub settings: PoolSettings,
    /// Who changed the settings; `None` if they are those of the code.
    pub set_by: Option<String>,
    /// The size over all processes.
    pub size: i32,
    /// The live processes in it.
    pub processes: i64,
    /// Workers that are handling messages.
    pub active: i64,
    /// Why more workers could not do more now.
    pub blocked: Option<String>,
    /// Messages that could be handled now.
    pub waiting: i64,
    /// The age of the oldest of them.
    pub oldest_ms: i64,
    /// Messages that wait for a later time.
    pub delayed: i64,
    /// Messages that were handled successfully.
    pub completed: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// When a message was last handled successfully.
    pub last_completed_at: Option<Timestamp>,
    /// When an attempt last failed.
    pub last_failed_at: Option<Timestamp>,
    /// When the size was last decided.
    pub checked_at: Option<Timestamp>,
    /// The number of pauses of its queues.
    pub paused: i64,
    /// Rates between the last two decisions.
    pub rates: PoolRates,
}

/// Returns every pool.
pub async fn list(db: &Db) -> Result<Vec<WorkerPoolStatus>, DbError> {
    let rows = db.connection().await?.query(POOLS, &[]).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<WorkerPoolStatus, DbError> {
    Ok(WorkerPoolStatus {
        name: row.get(0),
        settings: decode("the settings of a pool", row.get(1))?,
        set_by: row.get(2),
        size: row.get(3),
        processes: row.get(4),
        active: row.get(5),
        blocked: row.get(6),
        waiting: row.get(7),
        oldest_ms: row.get(8),
        delayed: row.get(9),
        completed: row.get(10),
        failed: row.get(11),
        last_completed_at: row.get(13),
        last_failed_at: row.get(14),
        checked_at: row.get(15),
        rates: decode("the figures of a pool", row.get(16))?,
        paused: row.get(17),
    })
}

/// A change of a pool's size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolDecision {
    /// When it was decided.
    pub at: Timestamp,
    /// The size before.
    pub from: i32,
    /// The size after.
    pub to: i32,
    /// The reason, such as `3 → 4: 61 waiting ≥ 50`.
    pub reason: String,
}

/// Returns the latest `limit` changes of a pool's size, the newest first.
pub async fn decisions(db: &Db, pool: &str, limit: i32) -> Result<Vec<PoolDecision>, DbError> {
    let rows = db.connection().await?.query(POOL_DECISIONS, &[&pool, &limit]).await?;
    let read = |row: &Row| PoolDecision { at: row.get(0), from: row.get(1), to: row.get(2), reason: row.get(3) };
    Ok(rows.iter().map(read).collect())
}

/// Changes the settings of a pool, or returns to those of the code (`None`). Returns `false` if there is no such pool.
pub async fn set(db: &Db, pool: &str, settings: Option<&PoolSettings>, operator: &Operator) -> Result<bool, DbError> {
    let mut tx = db.begin(Scope::platform("pools")).await?;
    let document = settings.map(|settings| json!(settings));
    let is_known: bool = tx.query_one(SET_POOL, &[&pool, &document, &operator.name]).await?.get(0);
    if !is_known {
        tx.rollback().await?;
        return Ok(false);
    }
    let entry = Entry::new(if settings.is_some() { "pool_changed" } else { "pool_reset" }).object("pool", pool);
    audit::record(&mut tx, operator, None, entry, [("settings", json!(document))])?;
    tx.commit().await?;
    Ok(true)
}

fn decode<T: serde::de::DeserializeOwned>(what: &str, document: Value) -> Result<T, DbError> {
    serde_json::from_value(document).map_err(|error| DbError::Config(format!("{what} cannot be read: {error}")))
}
